#include "core/base/buffer_pool.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

namespace gdf {
namespace {

TEST_CASE("a block holds as many bytes as were asked for, whatever the size") {
  std::vector<std::shared_ptr<uint8_t[]>> blocks;
  for (const size_t around : {1, 1 << 15, 40 << 10, 1 << 16, 100'000, 1 << 20, (1 << 20) + (64 << 10), 1 << 21}) {
    for (const size_t bytes : {around - 1, around, around + 1}) {
      blocks.push_back(AllocateBlock(bytes));
      std::memset(blocks.back().get(), 0xAB, bytes);  // a sanitizer sees a byte too many
    }
  }
}

TEST_CASE("a block that was let go of is used again, for its size and by any thread") {
  uint8_t* const first = AllocateBlock(1 << 20).get();  // let go of at once
  std::shared_ptr<uint8_t[]> again = AllocateBlock(1 << 20);
  CHECK(again.get() == first);
  CHECK(AllocateBlock(1 << 20).get() != first);
  std::thread([block = std::move(again)]() mutable { block.reset(); }).join();
  CHECK(AllocateBlock((1 << 20) - 1).get() == first);  // the most recent one of its class
}

}  // namespace
}  // namespace gdf
