// How one strided tensor lies in another.
#include <doctest/doctest.h>

#include <random>

#include "passes/functionalise/placement.h"

using namespace fulgurite;

namespace {

TensorType type_like(const at::Tensor& t) {
  TensorType type;
  type.sizes.assign(t.sizes().begin(), t.sizes().end());
  type.strides.assign(t.strides().begin(), t.strides().end());
  type.offset = t.storage_offset();
  return type;
}

// The kinds of the steps, one letter each; "-" where there is no way.
std::string way(const at::Tensor& base, const at::Tensor& view) {
  const auto steps = place(type_like(base), type_like(view));
  if (!steps) return "-";
  std::string letters;
  for (const ViewStep& step : *steps) letters += "vplsuer"[static_cast<int>(step.kind)];
  TensorType type = type_like(base);
  for (const ViewStep& step : *steps) type = *after(type, step);
  CHECK(same_geometry(type, type_like(view)));
  return letters;
}

}  // namespace

TEST_CASE("views are found in their base, in as few steps as there can be") {
  const at::Tensor x = at::arange(24).view({4, 6});
  CHECK(way(x, x) == "");
  CHECK(way(x, x.t()) == "p");
  CHECK(way(x, x[1]) == "l");
  CHECK(way(x, x.select(1, 2)) == "l");
  CHECK(way(x, x.slice(0, 1, 3)) == "s");
  CHECK(way(x, x.slice(1, 1, 6, 2)) == "s");
  CHECK(way(x, x.slice(1, 2, 3)) == "s");
  CHECK(way(x, x.view({2, 2, 6})) == "v");
  CHECK(way(x, x.flatten()) == "v");
  CHECK(way(x, x.flatten().slice(0, 3, 10)) == "vs");
  CHECK(way(x, x.view({2, 2, 6})[0].transpose(0, 1)) == "sp");
  CHECK(way(x, x.view({4, 2, 3}).select(1, 1)) == "s");
  CHECK(way(x, x.view({4, 2, 3}).select(2, 1)) == "s");
  CHECK(way(x, x.view({2, 2, 2, 3}).select(1, 1)) == "vs");
  CHECK(way(x, x.diagonal()) == "vs");
  CHECK(way(x, x.unsqueeze(1)) == "u");
  CHECK(way(x, x[0].expand({3, 6})) == "lue");
  CHECK(way(x, x[2][3]) == "ll");
  CHECK(way(x, x.unfold(1, 2, 2)) == "v");
  CHECK(way(x, x.unfold(1, 3, 1)) == "-");
  CHECK(way(x[0], x) == "-");
  CHECK(way(x.t(), x) == "p");
  CHECK(way(x.t(), x.flatten()) == "pv");
}

TEST_CASE("a base with gaps, and one whose elements share memory") {
  const at::Tensor base = at::arange(60).view({6, 10});
  const at::Tensor x = base.slice(0, 1, 5).slice(1, 2, 8);
  CHECK(way(x, x[1]) == "l");
  CHECK(way(x, x.slice(1, 1, 3).t()) == "sp");
  CHECK(way(x, base) == "-");
  CHECK(way(x, base[2]) == "-");
  CHECK(way(base, x) == "ss");
  const at::Tensor row = at::arange(4).expand({3, 4});
  CHECK(way(row, row[0]) == "-");
}

TEST_CASE("strides of dimensions of size one are kept") {
  const at::Tensor x = at::arange(12).view({3, 4});
  CHECK(way(x, x.as_strided({3, 1, 4}, {4, 99, 1})) == "ur");
  CHECK(way(x, x.slice(0, 1, 2)) == "s");
  CHECK(way(x, x.slice(0, 1, 2).transpose(0, 1)) == "sp");
}

TEST_CASE("any chain of torch's views is found, or refused, never mistaken") {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    at::Tensor base = at::arange(48).view({4, 2, 6}), view = base;
    for (int i = 0; i < 4; ++i) {
      if (view.dim() == 0) break;
      const int64_t dim = below(view.dim()), size = view.size(dim);
      switch (below(6)) {
        case 0:
          view = view.select(dim, below(size));
          break;
        case 1:
          view = view.slice(dim, below(size), size, 1 + below(2));
          break;
        case 2:
          view = view.transpose(dim, below(view.dim()));
          break;
        case 3:
          view = view.unsqueeze(dim);
          break;
        case 4:
          if (view.is_contiguous()) view = view.flatten();
          break;
        case 5:
          if (size % 2 == 0) view = view.unflatten(dim, {size / 2, 2});
          break;
      }
    }
    found += way(base, view) != "-";  // checks that the steps arrive
  }
  CHECK(found > 290);
}
