#include <doctest/doctest.h>

#include <random>
#include <set>

#include <ATen/ATen.h>

#include "torch/memory_overlap.h"

using namespace fulgurite;

namespace {

// The places of a tensor's bytes in its storage.
std::set<int64_t> bytes_of(const at::Tensor& tensor) {
  std::set<int64_t> places{tensor.storage_offset()};
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    std::set<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < tensor.size(d); ++i) next.insert(place + i * tensor.stride(d));
    places = next;
  }
  std::set<int64_t> bytes;
  for (int64_t place : places)
    for (size_t b = 0; b < tensor.itemsize(); ++b)
      bytes.insert(place * static_cast<int64_t>(tensor.itemsize()) + static_cast<int64_t>(b));
  return bytes;
}

bool have_common_bytes(const at::Tensor& one, const at::Tensor& other) {
  const std::set<int64_t> known = bytes_of(one), asked = bytes_of(other);
  return std::any_of(asked.begin(), asked.end(), [&](int64_t b) { return known.count(b) != 0; });
}

}  // namespace

TEST_CASE("common memory of strided tensors is found exactly") {
  std::mt19937 random(7);
  const auto up_to = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  };
  const at::Tensor memory = at::zeros({400});
  int common = 0, apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto view = [&](const at::Tensor& base) {
      std::vector<int64_t> sizes, strides;
      for (int64_t d = up_to(3); d > 0; --d) {
        sizes.push_back(up_to(4));
        strides.push_back(up_to(1) ? up_to(20) : 1 << up_to(4));
      }
      return base.as_strided(sizes, strides, up_to(40));
    };
    const at::Tensor one = view(memory);
    const at::Tensor other = view(up_to(3) ? memory : memory.view(at::kShort));
    const bool expected = have_common_bytes(one, other);
    REQUIRE(have_common_memory(one, other) == expected);
    REQUIRE(have_common_memory(other, one) == expected);
    ++(expected ? common : apart);
  }
  CHECK(common > 200);
  CHECK(apart > 500);
}

TEST_CASE("tensors that are far too large to be gone through") {
  const at::Tensor rows = at::empty({1 << 12, 1 << 12}, at::kMeta);
  CHECK(have_common_memory(rows.slice(1, 1), rows.slice(1, 0, -1)));
  CHECK(!have_common_memory(rows.slice(1, 0, 2048), rows.slice(1, 2048)));
  CHECK(!have_common_memory(rows.slice(1, 0, 4096, 2), rows.slice(1, 1, 4096, 2)));
  CHECK(have_common_memory(rows, rows.t()));
  CHECK(!have_common_memory(rows.select(1, 5), rows.select(1, 6)));
  CHECK(!have_common_memory(rows, at::empty_like(rows)));
  CHECK(have_same_elements(rows, rows.view({1 << 12, 1 << 12})));
  CHECK(!have_same_elements(rows, rows.t()));
}
