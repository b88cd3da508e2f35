#include "ir/tree_text.h"

#include <algorithm>

namespace fulgurite {
namespace {

using Kind = OutputTree::Kind;

// An object without a literal comes as `...  # Type`; the comment has to wait for the line's end.
constexpr std::string_view kUnwritten = "...  # ";

bool is_unwritten(const OutputTree& tree) {
  return tree.kind == Kind::Constant && tree.text.starts_with(kUnwritten);
}

// `word(out, node)` spells a leaf or a constant.
template <class F>
void append_tree(std::string& out, const OutputTree& tree, bool outermost, F&& word) {
  if (tree.kind == Kind::Leaf || tree.kind == Kind::Constant) return word(out, tree);
  // An object whose fields have no names is a tuple with a type of its own.
  const bool tuple = tree.kind == Kind::Tuple || (tree.kind == Kind::Object && tree.keys.empty());
  const bool keyed = !tuple && tree.kind != Kind::List;
  const bool bare = tuple && outermost && tree.children.size() > 1;
  const std::string_view brackets = bare                      ? ""
                                    : keyed                   ? "{}"
                                    : tree.kind == Kind::List ? "[]"
                                                              : "()";
  out += brackets.substr(0, 1);
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) out += ", ";
    if (keyed) out.append(i < tree.keys.size() ? tree.keys[i] : "None").append(": ");
    append_tree(out, tree.children[i], false, word);
  }
  if (tuple && tree.children.size() == 1) out += ',';
  out += brackets.substr(std::min<size_t>(1, brackets.size()));
}

void append_type_names(std::string& out, const OutputTree& tree) {
  std::string_view name;
  if (tree.kind == Kind::Object) name = tree.text;
  if (is_unwritten(tree)) name = std::string_view(tree.text).substr(kUnwritten.size());
  if (!name.empty()) out.append(out.empty() ? "  # " : ", ").append(name);
  for (const OutputTree& child : tree.children) append_type_names(out, child);
}

}  // namespace

std::string tree_text(const Trace& trace, const Names& names) {
  std::string out, types;
  append_tree(out, trace.output_tree, true, [&](std::string& text, const OutputTree& node) {
    if (node.kind == Kind::Constant) {
      text += is_unwritten(node) ? "..." : node.text;
      return;
    }
    const auto i = static_cast<size_t>(node.leaf);
    const ValueId id = i < trace.outputs.size() ? trace.outputs[i] : kNoValue;
    if (id == kNoValue) {
      text += "None";
    } else {
      names.append(text, id);
    }
  });
  append_type_names(types, trace.output_tree);
  return out + types;
}

std::string tree_outline(const OutputTree& tree) {
  std::string out;
  append_tree(out, tree, true, [](std::string& text, const OutputTree& node) {
    if (node.kind == Kind::Constant) {
      text += is_unwritten(node) ? "Ellipsis" : node.text;  // which is what `...` returns
    } else {
      text.append("<").append(std::to_string(node.leaf)).append(">");
    }
  });
  return out;
}

}  // namespace fulgurite
