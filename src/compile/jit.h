// fulgurite::jit for C++ programs: no Python anywhere.
//
//   auto f = fulgurite::jit([w](const at::Tensor& x) { return at::relu(at::linear(x, w)); });
//   at::Tensor y = f(x);  // captured, compiled, run
//   std::cout << fulgurite::print(f.last_traces().back());
//
// Each call is served by an entry for the types and aliasing of its tensors and the ambient state
// of torch. Whatever else the callable captures is a constant of the program: tensors by identity
// (their types are checked, their data may change), anything else by value at the first call.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "compile/pipeline.h"

namespace fulgurite {

// A compiled callable over lists of tensors; what `jit` builds upon. May be called from several
// threads at once.
class CompiledCallable {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Function = std::function<Tensors(const Tensors&)>;

  explicit CompiledCallable(Function function, CompileOptions options = {}, size_t capacity = 256);
  ~CompiledCallable();

  // Throws Unsupported for a program that cannot be captured, and whatever the callable throws.
  Tensors operator()(const Tensors& arguments);

  // The traces of the entry compiled last: as captured first, as executed last.
  std::vector<Trace> last_traces() const;
  uint64_t cache_hits() const;
  uint64_t cache_misses() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

namespace detail {

inline std::vector<at::Tensor> to_tensors(at::Tensor tensor) { return {std::move(tensor)}; }
inline std::vector<at::Tensor> to_tensors(std::vector<at::Tensor> tensors) { return tensors; }
template <class... T>
std::vector<at::Tensor> to_tensors(std::tuple<T...> tensors) {
  return std::apply([](auto&&... t) { return std::vector<at::Tensor>{t...}; }, std::move(tensors));
}

template <class R>
R from_tensors(std::vector<at::Tensor> tensors) {
  if constexpr (std::is_same_v<R, at::Tensor>) {
    return std::move(tensors[0]);
  } else if constexpr (std::is_same_v<R, std::vector<at::Tensor>>) {
    return tensors;
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return R{std::move(tensors[I])...};
    }(std::make_index_sequence<std::tuple_size_v<R>>());
  }
}

// The arguments and the result of a function or of an object with one operator().
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = std::decay_t<R>;
  static constexpr size_t kArguments = sizeof...(A);
  static_assert((std::is_same_v<std::decay_t<A>, at::Tensor> && ...),
                "fulgurite::jit takes a callable over at::Tensor; capture anything else");
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};

}  // namespace detail

// A callable with the signature of `F`: any number of tensors to a tensor, a std::tuple or a
// std::vector of them.
template <class F>
class Jitted {
  using Signature = detail::Signature<F>;

 public:
  explicit Jitted(F function, CompileOptions options = {})
      : compiled_(
            [function = std::move(function)](const std::vector<at::Tensor>& arguments) mutable {
              return [&]<size_t... I>(std::index_sequence<I...>) {
                return detail::to_tensors(function(arguments[I]...));
              }(std::make_index_sequence<Signature::kArguments>());
            },
            std::move(options)) {}

  template <class... A>
  typename Signature::Result operator()(const A&... arguments) {
    static_assert(sizeof...(A) == Signature::kArguments, "wrong number of arguments");
    return detail::from_tensors<typename Signature::Result>(compiled_({arguments...}));
  }

  std::vector<Trace> last_traces() const { return compiled_.last_traces(); }
  uint64_t cache_hits() const { return compiled_.cache_hits(); }
  uint64_t cache_misses() const { return compiled_.cache_misses(); }

 private:
  CompiledCallable compiled_;
};

template <class F>
Jitted<std::decay_t<F>> jit(F&& function, CompileOptions options = {}) {
  return Jitted<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

}  // namespace fulgurite
