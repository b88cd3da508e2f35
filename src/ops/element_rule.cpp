#include "ops/element_rule.h"

#include <ATen/Dispatch.h>
#include <c10/core/WrapDimMinimal.h>

#include "base/error.h"

namespace fulgurite {
namespace {

Scalar rounded(Scalar x, c10::ScalarType dtype) {
  return computed_in(dtype) == dtype ? x : round_to(x, dtype);
}

// Throws c10::Error where eager does.
void check_room(const c10::Scalar& number, c10::ScalarType dtype) {
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "number",
                             [&] { number.to<scalar_t>(); });
}

}  // namespace

ElementSource ElementCall::tensor(size_t i) const {
  if (args[i].kind != Arg::Kind::Value || args[i].values[0] == kNoValue)
    throw Unsupported("an argument that is no tensor of the program");
  return {args[i].values[0], &type_of(*trace, args[i].values[0])};
}

std::vector<ElementSource> ElementCall::tensors(size_t i) const {
  if (args[i].kind != Arg::Kind::ValueList)
    throw Unsupported("an argument that is no list of tensors of the program");
  std::vector<ElementSource> all;
  for (ValueId id : args[i].values)
    all.push_back({id, id == kNoValue ? nullptr : &type_of(*trace, id)});
  return all;
}

size_t ElementCall::dim(size_t i, size_t rank) const {
  return c10::maybe_wrap_dim(number(i), static_cast<int64_t>(rank));
}

Scalar ElementCall::value(const c10::Scalar& number) const {
  if (number.isComplex()) throw Unsupported("a complex number");
  check_room(number, result->dtype);
  return rounded(fulgurite::constant(*graph, computed_in(result->dtype), number), result->dtype);
}

Scalar ElementCall::element(const ElementSource& source, const Place& place) const {
  require(source.sizes().size() == place.size(), "a place in {} dimensions of {}", place.size(),
          source.sizes().size());
  const Scalar x = convert(read(source, place), computed_in(result->dtype));
  return source.type->dtype == result->dtype ? x : rounded(x, result->dtype);
}

}  // namespace fulgurite
