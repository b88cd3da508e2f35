#include "passes/asked_once.h"

#include <array>
#include <unordered_map>

#include "ir/structure.h"

namespace fulgurite {
namespace {

struct Answers {
  Executor executor;
  Structure structure{};
  std::unordered_map<std::string, Refusal> claims{};
  std::unordered_map<std::string, Quote> quotes{};
};

template <class Answer, class Ask>
Answer known_or(std::unordered_map<std::string, Answer>& known, std::optional<std::string> key,
                Ask&& ask) {
  if (!key) return ask();
  if (const auto it = known.find(*key); it != known.end()) return it->second;
  return known.emplace(std::move(*key), ask()).first->second;
}

}  // namespace

Executor asked_once(const Executor& executor) {
  if (!executor.fuses) return executor;
  const auto answers = std::make_shared<Answers>(executor);
  Executor result = executor;
  if (executor.by_structure)
    result.claims = [answers](const Trace& trace, const Call& call) {
      return known_or(answers->claims, answers->structure.of(trace, std::array{&call}),
                      [&] { return answers->executor.claims(trace, call); });
    };
  result.fuses = [answers](const Trace& trace, std::span<const Call* const> calls,
                           c10::ArrayRef<ValueId> inputs, c10::ArrayRef<ValueId> outputs) {
    return known_or(answers->quotes, answers->structure.of(trace, calls, inputs, outputs),
                    [&] { return answers->executor.fuses(trace, calls, inputs, outputs); });
  };
  return result;
}

}  // namespace fulgurite
