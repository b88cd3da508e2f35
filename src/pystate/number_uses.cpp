#include "pystate/number_uses.h"

#include <Python.h>
#include <opcode.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "pystate/code_review.h"
#include "pystate/opcodes.h"

namespace fulgurite::pystate {
namespace {

struct Step {
  int index, opcode, argument;
};

// What an instruction takes from the top of the value stack and puts there.
struct StackUse {
  int takes, puts;
};

// Of the instructions that the other operand may consist of: none that jumps, moves what is deeper
// in the stack, or stores.
std::optional<StackUse> stack_use(const Step& step) {
  const int argument = step.argument;
  switch (step.opcode) {
    case LOAD_CONST:
    case LOAD_FAST:
    case LOAD_DEREF:
    case PUSH_NULL:
      return StackUse{0, 1};
    case LOAD_GLOBAL:
      return StackUse{0, 1 + (argument & 1)};
    case LOAD_ATTR:
    case UNARY_NEGATIVE:
    case UNARY_POSITIVE:
    case UNARY_INVERT:
    case UNARY_NOT:
      return StackUse{1, 1};
    case LOAD_METHOD:
      return StackUse{1, 2};
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP:
    case IS_OP:
    case CONTAINS_OP:
      return StackUse{2, 1};
    case BUILD_TUPLE:
    case BUILD_LIST:
      return StackUse{argument, 1};
    case CALL:
      return StackUse{argument + 2, 1};
    case PRECALL:
    case KW_NAMES:
    case NOP:
      return StackUse{0, 0};
    default:
      return std::nullopt;
  }
}

std::optional<Arithmetic> arithmetic_of(int operation) {
  switch (operation) {
    case NB_ADD:
    case NB_INPLACE_ADD:
      return Arithmetic::Add;
    case NB_SUBTRACT:
    case NB_INPLACE_SUBTRACT:
      return Arithmetic::Subtract;
    case NB_MULTIPLY:
    case NB_INPLACE_MULTIPLY:
      return Arithmetic::Multiply;
    case NB_TRUE_DIVIDE:
    case NB_INPLACE_TRUE_DIVIDE:
      return Arithmetic::Divide;
    case NB_FLOOR_DIVIDE:
    case NB_INPLACE_FLOOR_DIVIDE:
      return Arithmetic::FloorDivide;
    case NB_REMAINDER:
    case NB_INPLACE_REMAINDER:
      return Arithmetic::Remainder;
    default:
      return std::nullopt;
  }
}

bool is_jump_on_truth(int opcode) {
  return opcode == POP_JUMP_FORWARD_IF_FALSE || opcode == POP_JUMP_FORWARD_IF_TRUE ||
         opcode == POP_JUMP_BACKWARD_IF_FALSE || opcode == POP_JUMP_BACKWARD_IF_TRUE ||
         opcode == UNARY_NOT;
}

// How far an instruction may jump, from the one after it; 0 for those that do not.
int jump_of(const Decoded& at) {
  switch (at.opcode) {
    case JUMP_FORWARD:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case FOR_ITER:
    case SEND:
      return at.argument;
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return -at.argument;
    default:
      return 0;
  }
}

class Finder {
 public:
  explicit Finder(const CodeReview& code) {
    for (int index = 0; index < code.count;) {
      const Decoded found = decode(code, index);
      steps_.push_back({index, found.opcode, found.argument});
      if (const int distance = jump_of(found)) targets_.insert(found.next + distance);
      index = found.next;
    }
  }

  std::vector<NumberUse> run() const {
    std::vector<NumberUse> uses;
    for (size_t i = 0; i < steps_.size(); i++) {
      auto use = is_load(steps_[i]) ? use_of(i) : std::nullopt;
      // Of two numbers that meet in an operator, one is an operand like any other: to be known.
      const auto meets = [&](const NumberUse& other) { return other.end == use->end; };
      if (use && std::ranges::none_of(uses, meets)) uses.push_back(std::move(*use));
    }
    return uses;
  }

 private:
  bool is(size_t i, int opcode, int argument) const {
    return i < steps_.size() && steps_[i].opcode == opcode && steps_[i].argument == argument;
  }

  static bool is_load(const Step& step) {
    return step.opcode == LOAD_ATTR || step.opcode == LOAD_DEREF || step.opcode == BINARY_SUBSCR ||
           (step.opcode == LOAD_GLOBAL && !(step.argument & 1));
  }

  // Follows what the step puts on the stack.
  std::optional<NumberUse> use_of(size_t load) const {
    NumberUse use{steps_[load].index, 0, {}};
    int above = 0;  // how much is on the stack over it
    for (size_t i = load + 1; i < steps_.size(); i++) {
      const auto [index, opcode, argument] = steps_[i];
      if (targets_.contains(index)) return std::nullopt;  // another number may be there
      const bool takes_it = above == 0 && is_jump_on_truth(opcode);
      if (takes_it || (opcode == COMPARE_OP && above <= 1)) {
        use.end = index;
        if (opcode == COMPARE_OP) use.comparison = argument, use.swapped = above == 0;
        return use;
      }
      if (opcode == BINARY_OP && above <= 1) {
        const auto kind = arithmetic_of(argument);
        if (!kind) return std::nullopt;
        use.operators.push_back({index, *kind, above == 0});
        above = 0;
        if (const size_t store = store_after(load, i)) {
          use.end = steps_[store].index;
          use.stores = true;
          return use;
        }
        continue;
      }
      const auto stack = stack_use(steps_[i]);
      if (!stack || stack->takes > above) return std::nullopt;
      above += stack->puts - stack->takes;
    }
    return std::nullopt;
  }

  // The step that stores the result in the place of the load; 0 where something else is done.
  size_t store_after(size_t load, size_t last) const {
    const auto [index, opcode, argument] = steps_[load];
    switch (opcode) {
      case LOAD_GLOBAL:
        return is(last + 1, STORE_GLOBAL, argument >> 1) ? last + 1 : 0;
      case LOAD_DEREF:
        return is(last + 1, STORE_DEREF, argument) ? last + 1 : 0;
      case LOAD_ATTR: {
        if (load == 0 || !is(last + 2, STORE_ATTR, argument)) return 0;
        const Step& object = steps_[load - 1];
        const bool named = object.opcode == LOAD_FAST || object.opcode == LOAD_DEREF ||
                           object.opcode == LOAD_GLOBAL;
        const bool same_object = (is(load - 1, COPY, 1) && is(last + 1, SWAP, 2)) ||
                                 (named && is(last + 1, object.opcode, object.argument));
        return same_object ? last + 2 : 0;
      }
      default: {
        const bool same_item = load > 1 && is(load - 1, COPY, 2) && is(load - 2, COPY, 2) &&
                               is(last + 1, SWAP, 3) && is(last + 2, SWAP, 2) &&
                               is(last + 3, STORE_SUBSCR, 0);
        return same_item ? last + 3 : 0;
      }
    }
  }

  std::vector<Step> steps_;
  std::unordered_set<int> targets_;  // of jumps
};

}  // namespace

std::vector<NumberUse> find_number_uses(const CodeReview& code) { return Finder(code).run(); }

std::string_view text_of(Arithmetic kind) {
  constexpr std::string_view kTexts[] = {"+", "-", "*", "/", "//", "%"};
  return kTexts[static_cast<size_t>(kind)];
}

std::string_view text_of_comparison(int comparison) {
  constexpr std::string_view kTexts[] = {"<", "<=", "==", "!=", ">", ">="};
  return kTexts[static_cast<size_t>(comparison)];
}

}  // namespace fulgurite::pystate
