#include "ir/tree_text.h"

#include "ir/literal.h"

namespace fulgurite {
namespace {

using Kind = OutputTree::Kind;

// The fields of an object are names; the keys of a dict are Python text already.
std::string key_text(const OutputTree& tree, size_t i) {
  if (i >= tree.keys.size()) return "None";
  if (tree.kind == Kind::Dict) return tree.keys[i];
  std::string quoted;
  append_string(quoted, tree.keys[i]);
  return quoted;
}

// `leaf(index)` spells a leaf.
template <class F>
void append_tree(std::string& out, const OutputTree& tree, bool outermost, F&& leaf) {
  const bool is_tuple = tree.kind == Kind::Tuple;
  const bool bare = is_tuple && outermost && tree.children.size() > 1;
  switch (tree.kind) {
    case Kind::Leaf:
      leaf(out, tree.leaf);
      return;
    case Kind::Constant:
      out += tree.text;
      return;
    case Kind::Tuple:
      out += bare ? "" : "(";
      break;
    case Kind::List:
      out += '[';
      break;
    case Kind::Dict:
    case Kind::Object:
      out += '{';
      break;
  }
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) out += ", ";
    if (!is_tuple && tree.kind != Kind::List) out.append(key_text(tree, i)).append(": ");
    append_tree(out, tree.children[i], false, leaf);
  }
  if (is_tuple) {
    if (tree.children.size() == 1) out += ',';
    if (!bare) out += ')';
  } else {
    out += tree.kind == Kind::List ? ']' : '}';
  }
}

void append_object_names(std::string& out, const OutputTree& tree) {
  if (tree.kind == Kind::Object) out.append(out.empty() ? "  # " : ", ").append(tree.text);
  for (const OutputTree& child : tree.children) append_object_names(out, child);
}

}  // namespace

std::string tree_text(const Trace& trace, const Names& names) {
  std::string out, objects;
  append_tree(out, trace.output_tree, true, [&](std::string& text, int32_t leaf) {
    const auto i = static_cast<size_t>(leaf);
    const ValueId id = i < trace.outputs.size() ? trace.outputs[i] : kNoValue;
    if (id == kNoValue) {
      text += "None";
    } else {
      names.append(text, id);
    }
  });
  append_object_names(objects, trace.output_tree);
  return out + objects;
}

std::string tree_outline(const OutputTree& tree) {
  std::string out;
  append_tree(out, tree, true, [](std::string& text, int32_t leaf) {
    text.append("<").append(std::to_string(leaf)).append(">");
  });
  return out;
}

}  // namespace fulgurite
