#include "ir/literal.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/core/DynamicCast.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

namespace fulgurite {
namespace {

// Python writes exponents from 1e16 on and below 1e-4, with two digits at least.
void append_finite(std::string& out, double value) {
  char buffer[32];
  auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, end - buffer);
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  size_t e = text.find('e');
  int exponent = 0;
  const char* sign = text.data() + e + 1;
  std::from_chars(*sign == '+' ? sign + 1 : sign, end, exponent);
  std::string digits(1, text.front());
  if (e > 2) digits += text.substr(2, e - 2);

  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out.append(".").append(digits, 1);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+',
                   std::abs(exponent));
  } else if (exponent < 0) {
    out.append("0.").append(-exponent - 1, '0').append(digits);
  } else {
    size_t whole = exponent + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    out.append(digits, 0, whole).append(".");
    out += digits.size() > whole ? digits.substr(whole) : "0";
  }
}

std::string_view layout_name(at::Layout layout) {
  switch (layout) {
    case at::Layout::Strided:
      return "strided";
    case at::Layout::Sparse:
      return "sparse_coo";
    case at::Layout::SparseCsr:
      return "sparse_csr";
    case at::Layout::SparseCsc:
      return "sparse_csc";
    case at::Layout::SparseBsr:
      return "sparse_bsr";
    case at::Layout::SparseBsc:
      return "sparse_bsc";
    case at::Layout::Mkldnn:
      return "_mkldnn";
    case at::Layout::Jagged:
      return "jagged";
    default:
      return "";
  }
}

std::string_view memory_format_name(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous:
      return "contiguous_format";
    case at::MemoryFormat::Preserve:
      return "preserve_format";
    case at::MemoryFormat::ChannelsLast:
      return "channels_last";
    case at::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "";
  }
}

// The name below `torch` of what an integer stands for; "" for a plain integer.
std::string_view enumerator(int64_t value, c10::TypeKind kind) {
  switch (kind) {
    case c10::TypeKind::ScalarTypeType:
      return c10::getDtypeNames(static_cast<at::ScalarType>(value)).first;
    case c10::TypeKind::LayoutType:
      return layout_name(static_cast<at::Layout>(value));
    case c10::TypeKind::MemoryFormatType:
      return memory_format_name(static_cast<at::MemoryFormat>(value));
    default:
      return "";
  }
}

bool is_default_generator(const c10::IValue& value) {
  if (!value.isGenerator()) return false;
  const at::Generator generator = value.toGenerator();
  return !generator.defined() ||
         generator == at::globalContext().defaultGenerator(generator.device());
}

const c10::Type& element_type(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>())
    return element_type(*optional->getElementType());
  return type;
}

std::string append_list(std::string& out, const c10::IValue& value, const c10::Type& type) {
  const auto* list = type.castRaw<c10::ListType>();
  const c10::Type& element = list ? *list->getElementType() : *c10::AnyType::get();
  std::string note;
  out += '[';
  bool first = true;
  for (const c10::IValue& item : value.toListRef()) {
    if (!std::exchange(first, false)) out += ", ";
    std::string found = append_literal(out, item, element);
    if (note.empty()) note = std::move(found);
  }
  out += ']';
  return note;
}

void append_complex(std::string& out, c10::complex<double> value) {
  out += "complex(";
  append_float(out, value.real());
  out += ", ";
  append_float(out, value.imag());
  out += ')';
}

bool same_double(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

bool same_list(const c10::IValue& a, const c10::IValue& b) {
  const auto left = a.toListRef(), right = b.toListRef();
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i)
    if (!same_constant(left[i], right[i])) return false;
  return true;
}

}  // namespace

void append_float(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "float(\"nan\")";
  } else if (std::isinf(value)) {
    out += value < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  } else {
    append_finite(out, value);
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
}

c10::IValue wrapped_number(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kBool) return *static_cast<const bool*>(data);
  if (at::isComplexType(dtype)) return c10::fetch_and_cast<c10::complex<double>>(dtype, data);
  if (at::isFloatingType(dtype)) return c10::fetch_and_cast<double>(dtype, data);
  return c10::fetch_and_cast<int64_t>(dtype, data);
}

std::string append_literal(std::string& out, const c10::IValue& value, const c10::Type& type) {
  const c10::Type& element = element_type(type);
  if (value.isBool()) {
    out += value.toBool() ? "True" : "False";
  } else if (value.isInt()) {
    std::string_view name = enumerator(value.toInt(), element.kind());
    if (!name.empty()) {
      out.append("torch.").append(name);
    } else {
      fmt::format_to(std::back_inserter(out), "{}", value.toInt());
    }
  } else if (value.isDouble()) {
    append_float(out, value.toDouble());
  } else if (value.isComplexDouble()) {
    append_complex(out, value.toComplexDouble());
  } else if (value.isString()) {
    append_string(out, value.toStringRef());
  } else if (value.isDevice()) {
    append_string(out, value.toDevice().str());
  } else if (value.isList()) {
    return append_list(out, value, element);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().dim() == 0 &&
             value.toTensor().is_cpu()) {
    return append_literal(out, wrapped_number(value.toTensor()), element);
  } else {
    out += "None";
    if (value.isNone() || is_default_generator(value)) return "";
    if (value.isGenerator()) return "one of the program's own, written as None";
    return fmt::format("a {}, written as None", value.tagKind());
  }
  return "";
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  const bool a_none = a.isNone() || is_default_generator(a);
  const bool b_none = b.isNone() || is_default_generator(b);
  if (a_none || b_none) return a_none && b_none;
  if (a.isDouble() && b.isDouble()) return same_double(a.toDouble(), b.toDouble());
  if (a.isComplexDouble() && b.isComplexDouble()) {
    const auto x = a.toComplexDouble(), y = b.toComplexDouble();
    return same_double(x.real(), y.real()) && same_double(x.imag(), y.imag());
  }
  if (a.isList() && b.isList()) return same_list(a, b);
  if (a.isTensor() && b.isTensor()) {
    const at::Tensor &x = a.toTensor(), &y = b.toTensor();
    if (x.is_same(y)) return true;
    if (!x.defined() || !y.defined() || x.dim() != 0 || y.dim() != 0) return false;
    return x.scalar_type() == y.scalar_type() &&
           same_constant(wrapped_number(x), wrapped_number(y));
  }
  if (a.tagKind() != b.tagKind()) return false;
  return a.isGenerator() ? a.toGenerator() == b.toGenerator() : a == b;
}

}  // namespace fulgurite
