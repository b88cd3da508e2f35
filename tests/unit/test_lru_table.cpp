#include <doctest/doctest.h>

#include "base/lru_table.h"

using fulgurite::LruTable;

TEST_CASE("the least recently used value is dropped first") {
  LruTable<int> table(2);
  const auto any = [](int) { return true; };
  table.add(1, std::make_shared<int>(10));
  table.add(2, std::make_shared<int>(20));
  CHECK(*table.find(1, any) == 10);  // now the most recent
  table.add(3, std::make_shared<int>(30));
  CHECK(table.find(2, any) == nullptr);
  CHECK(*table.find(1, any) == 10);
  CHECK(*table.find(3, any) == 30);
  CHECK(table.size() == 2);
}

TEST_CASE("values can be dropped") {
  LruTable<int> table(8);
  for (int i = 0; i < 6; ++i) table.add(i / 2, std::make_shared<int>(i));
  table.drop_if([](int v) { return v % 2 == 1; });
  CHECK(table.size() == 3);
  CHECK(*table.find(1, [](int) { return true; }) == 2);
  CHECK(table.find(1, [](int v) { return v == 3; }) == nullptr);
}

TEST_CASE("values of one hash are told apart") {
  LruTable<int> table(8);
  table.add(7, std::make_shared<int>(1));
  table.add(7, std::make_shared<int>(2));
  CHECK(*table.find(7, [](int v) { return v == 2; }) == 2);
  CHECK(*table.find(7, [](int v) { return v == 1; }) == 1);
  CHECK(table.find(7, [](int v) { return v == 3; }) == nullptr);
  table.clear();
  CHECK(table.size() == 0);
  CHECK(table.find(7, [](int) { return true; }) == nullptr);
}
