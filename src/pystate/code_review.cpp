#include "pystate/code_review.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "pystate/interpreter.h"
#include "pystate/packages.h"

namespace fulgurite::pystate {
namespace {

// Files of torch, relative to its directory, whose code is not watched. A name that ends with a
// slash stands for all files below, one with a colon for a function. Everything else of torch is
// watched like the user's code.
//
// They hand tensors on to the dispatcher, or keep ambient state that the capture tracks (grad
// mode, autocast, dispatch modes) or caches that cannot change a result.
constexpr std::string_view kExemptOfTorch[] = {
    "_C/",
    "_compile.py",
    "_dispatch/",
    "_dynamo/",
    "_functorch/",
    "_higher_order_ops/",
    "_jit_internal.py",
    "_library/",
    "_logging/",
    "_ops.py",
    "_subclasses/",
    "_tensor_str.py",
    "_utils.py",
    "_vmap_internals.py",
    "amp/autocast_mode.py",
    "autograd/__init__.py",
    "autograd/_functions/",
    "autograd/forward_ad.py",
    "autograd/function.py",
    "autograd/functional.py",
    "autograd/grad_mode.py",
    "autograd/graph.py",
    "autograd/profiler.py",
    "autograd/profiler_util.py",
    "autograd/variable.py",
    "compiler/",
    "fx/",
    "jit/",
    "library.py",
    "overrides.py",
    "return_types.py",
    "utils/_contextlib.py",
    "utils/_device.py",
    "utils/_import_utils.py",
    "utils/_python_dispatch.py",
    "utils/_stats.py",
    "utils/_traceback.py",
    "utils/hooks.py:RemovableHandle.__init__",  // counts the hooks of the process
};

// Result types of operators, computed in Python: the user's code is never called from there.
constexpr std::string_view kClosedOfTorch[] = {
    "_decomp/", "_inductor/", "_meta_registrations.py", "_prims/", "_prims_common/", "_refs/"};

// Pure functions with caches of their own: compiled patterns, and nothing else.
constexpr std::string_view kExemptOfLibrary[] = {
    "/re/__init__.py", "/re/_compiler.py", "/re/_parser.py", "/re/_constants.py", "/linecache.py"};

struct FunctionOfLibrary {
  std::string_view file_end, function;
  Treatment treatment;
};
constexpr FunctionOfLibrary kFunctionsOfLibrary[] = {
    {"/logging/__init__.py", "Logger._log", Treatment::Message},
    {"/logging/__init__.py", "Logger.handle", Treatment::Message},
    // Around a look at the levels of loggers, which is watched.
    {"/logging/__init__.py", "_acquireLock", Treatment::Closed},
    {"/logging/__init__.py", "_releaseLock", Treatment::Closed},
    {"/warnings.py", "_showwarnmsg", Treatment::Message},  // of C code
    {"/warnings.py", "WarningMessage.__init__", Treatment::Message},
    {"/warnings.py", "warn", Treatment::Message},
    {"/warnings.py", "warn_explicit", Treatment::Message},
    // Of the number formats, with a table of those that were asked for.
    {"/numpy/_core/getlimits.py", "finfo.__new__", Treatment::Closed},
    {"/numpy/_core/getlimits.py", "iinfo.max", Treatment::Closed},
    {"/numpy/_core/getlimits.py", "iinfo.min", Treatment::Closed},
    // The name of the module that called.
    {"/collections/__init__.py", "namedtuple", Treatment::Closed},
    // A variable of the function that called.
    {"/typing_extensions.py", "_has_generic_or_protocol_as_origin", Treatment::Closed},
    // The bar on the screen, and the clock behind it.
    {"/tqdm/std.py", "tqdm.__new__", Treatment::Closed},
    {"/tqdm/std.py", "tqdm.__iter__", Treatment::Exempt},
    {"/tqdm/std.py", "tqdm.__del__", Treatment::Closed},
    {"/tqdm/std.py", "tqdm.clear", Treatment::Message},
    {"/tqdm/std.py", "tqdm.close", Treatment::Message},
    {"/tqdm/std.py", "tqdm.refresh", Treatment::Message},
    {"/tqdm/std.py", "tqdm.reset", Treatment::Message},
    {"/tqdm/std.py", "tqdm.set_description", Treatment::Message},
    {"/tqdm/std.py", "tqdm.set_description_str", Treatment::Message},
    {"/tqdm/std.py", "tqdm.set_postfix", Treatment::Message},
    {"/tqdm/std.py", "tqdm.set_postfix_str", Treatment::Message},
    {"/tqdm/std.py", "tqdm.update", Treatment::Message},
    {"/tqdm/std.py", "tqdm.write", Treatment::Message},
};

// `path` is that of a file, a colon, and the qualified name of a function.
bool is_listed(std::string_view path, std::span<const std::string_view> list) {
  std::string_view file = path.substr(0, path.find(':'));
  return std::any_of(list.begin(), list.end(), [=](std::string_view entry) {
    return entry.back() == '/' ? path.starts_with(entry) : entry == file || entry == path;
  });
}

Treatment treatment_of(PyCodeObject* code) {
  std::string_view file = file_of(code);
  if (file.starts_with("<frozen importlib")) {
    const bool loads =
        PyUnicode_CompareWithASCIIString(code->co_qualname, "_find_and_load_unlocked") == 0;
    return loads ? Treatment::Import : Treatment::Exempt;
  }
  if (is_in(file, packages().own)) return Treatment::Exempt;
  if (is_in(file, packages().torch)) {
    const char* function = PyUnicode_AsUTF8(code->co_qualname);
    std::string rest(file.substr(packages().torch.size()));
    rest.append(":").append(function ? function : "");
    if (is_listed(rest, kClosedOfTorch)) return Treatment::Closed;
    if (is_listed(rest, kExemptOfTorch)) return Treatment::Exempt;
    return Treatment::Watched;
  }
  // typing_extensions is the typing module of later versions, and puts parts of itself there.
  const bool library =
      (is_in(file, packages().library) && file.find("/site-packages/") == std::string_view::npos) ||
      file.ends_with("/typing_extensions.py");
  for (std::string_view exempt : kExemptOfLibrary)
    if (file.ends_with(exempt)) return Treatment::Exempt;
  for (const FunctionOfLibrary& known : kFunctionsOfLibrary)
    if (file.ends_with(known.file_end)) {
      const char* name = PyUnicode_AsUTF8(code->co_qualname);
      if (name && name == known.function) return known.treatment;
    }
  return library ? Treatment::Library : Treatment::Watched;
}

void* make_review(PyCodeObject* code) {
  auto* review = new CodeReview;
  review->treatment = treatment_of(code);
  review->function = reviewed_function(code);
  review->instructions = plain_instructions(code);
  review->bytes =
      reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(review->instructions.get()));
  review->count = static_cast<int>(PyBytes_GET_SIZE(review->instructions.get()) / 2);
  review->number_uses = find_number_uses(*review);
  return review;
}

}  // namespace

CodeReview& review_of(PyCodeObject* code) {
  auto destroy = [](void* review) { delete static_cast<CodeReview*>(review); };
  return *static_cast<CodeReview*>(data_of_code(code, make_review, destroy));
}

}  // namespace fulgurite::pystate
