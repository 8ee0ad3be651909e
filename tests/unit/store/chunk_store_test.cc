#include <catch2/catch.hpp>

#include <stdlib.h>

#include <atomic>

#include "core/base/compute_pool.h"
#include "core/base/rng.h"
#include "core/store/chunk_store.h"

namespace gdf::store {
namespace {

std::vector<uint8_t> Content(uint64_t seed, size_t size = 100) {
  std::vector<uint8_t> bytes(size);
  SeededRng rng(seed);
  rng.Fill(absl::MakeSpan(bytes));
  return bytes;
}

ChunkId IdOf(uint64_t seed) { return HashBytes(absl::MakeConstSpan(Content(seed))); }

std::unique_ptr<ChunkStore> Open(FileSystem& files, uint64_t cap = ~uint64_t{0}) {
  auto store = ChunkStore::Open(files, {"chunks", cap});
  REQUIRE(store.ok());
  return *std::move(store);
}

TEST_CASE("a chunk comes back under its hash, also after a restart") {
  MemoryFileSystem files;
  auto store = Open(files);
  const ChunkId id = *store->Put(Content(1));
  CHECK(id == IdOf(1));
  CHECK(store->Get(id)->view() == Buffer(Content(1)).view());
  CHECK(*store->Put(Content(1)) == id);
  CHECK(store->usage().bytes == 100);
  CHECK(absl::IsNotFound(store->Get(IdOf(2)).status()));
  CHECK(store->Has(id));
  CHECK_FALSE(store->Has(IdOf(2)));
  store = Open(files);
  CHECK(store->Has(id));
  CHECK(store->Get(id)->size() == 100);
  CHECK(store->usage().chunks == 1);
}

TEST_CASE("bytes that are not the expected chunk are refused and not kept") {
  MemoryFileSystem files;
  auto store = Open(files);
  CHECK(absl::IsDataLoss(store->PutExpected(IdOf(1), Content(2))));
  CHECK(store->usage().chunks == 0);
  CHECK(absl::IsInvalidArgument(store->Put(std::vector<uint8_t>(kMaxChunkBytes + 1)).status()));
}

TEST_CASE("a damaged chunk is data loss once, then absent, then stored anew") {
  MemoryFileSystem files;
  auto store = Open(files);
  const ChunkId id = *store->Put(Content(1), "j1");
  REQUIRE(store->Pin("j1", {id}).ok());
  const std::string hex = id.ToHex();
  REQUIRE(files.WriteAtomic("chunks/" + hex.substr(0, 2) + "/" + hex.substr(2), "rubbish").ok());
  CHECK(absl::IsDataLoss(store->Get(id).status()));
  CHECK(absl::IsNotFound(store->Get(id).status()));
  CHECK_FALSE(store->Has(id));
  CHECK(store->PinnedBy("j1", id));
  CHECK(store->usage().bytes == 0);
  REQUIRE(store->Put(Content(1)).ok());
  CHECK(store->Get(id).ok());
}

TEST_CASE("the least recently used chunk goes first, pinned ones never") {
  MemoryFileSystem files;
  auto store = Open(files, 300);
  REQUIRE(store->Put(Content(1), "j1").ok());
  REQUIRE(store->Put(Content(2)).ok());
  REQUIRE(store->Put(Content(3)).ok());
  REQUIRE(store->Get(IdOf(2)).ok());  // now 3 is the oldest
  REQUIRE(store->Put(Content(4)).ok());
  CHECK_FALSE(store->Has(IdOf(3)));
  CHECK(store->usage().bytes == 300);
  REQUIRE(store->Pin("j2", {IdOf(2), IdOf(4)}).ok());
  const absl::Status full = store->Put(Content(5)).status();
  CHECK(absl::IsResourceExhausted(full));
  for (const uint64_t seed : {1, 2, 4}) CHECK(store->Has(IdOf(seed)));
  REQUIRE(store->Drop("j2").ok());
  CHECK(store->usage().chunks == 1);
  CHECK(store->Put(Content(5)).ok());
}

TEST_CASE("dropping an owner deletes what only it pinned, and pins outlive a restart") {
  MemoryFileSystem files;
  auto store = Open(files);
  for (const uint64_t seed : {1, 2, 3}) REQUIRE(store->Put(Content(seed)).ok());
  REQUIRE(store->Pin("j1", {IdOf(1), IdOf(2), IdOf(9)}).ok());  // 9 is still to come
  REQUIRE(store->Pin("j2", {IdOf(2)}).ok());
  store = Open(files, 250);
  CHECK(store->Owners() == std::vector<std::string>{"j1", "j2"});
  CHECK(store->PinnedBy("j1", IdOf(9)));
  for (const uint64_t seed : {1, 2}) CHECK(store->Has(IdOf(seed)));
  CHECK_FALSE(store->Has(IdOf(3)));  // over the cap
  CHECK(store->usage().pinned_bytes == 200);
  REQUIRE(store->SetPins("j1", {IdOf(2)}).ok());
  CHECK_FALSE(store->Has(IdOf(1)));
  REQUIRE(store->Drop("j1").ok());
  CHECK(store->Has(IdOf(2)));
  REQUIRE(store->Drop("j2").ok());
  CHECK_FALSE(store->Has(IdOf(2)));
  CHECK(Open(files)->Owners().empty());
  CHECK(absl::IsInvalidArgument(store->Pin("../x", {})));
}

TEST_CASE("what only others brought here counts as missing") {
  MemoryFileSystem files;
  auto store = Open(files);
  REQUIRE(store->Put(Content(1), "j1").ok());
  REQUIRE(store->Put(Content(2), "j2").ok());
  REQUIRE(store->Put(Content(3)).ok());
  REQUIRE(store->Pin("j1", {IdOf(9)}).ok());  // is still to come
  const std::vector<ChunkId> all = {IdOf(1), IdOf(2), IdOf(3), IdOf(9)};
  CHECK(store->Missing(all, {"j1", "j7"}) == std::vector<ChunkId>{IdOf(2), IdOf(3), IdOf(9)});
  CHECK(store->Missing(all, {"j2", "j1"}) == std::vector<ChunkId>{IdOf(3), IdOf(9)});
  CHECK(store->Missing(all, {}) == all);
}

TEST_CASE("what is under an owner is its own and that of owners named after it") {
  MemoryFileSystem files;
  auto store = Open(files);
  REQUIRE(store->Put(Content(1), "j1").ok());
  REQUIRE(store->Put(Content(2), "j1-checkpoint-4").ok());
  REQUIRE(store->Put(Content(3), "j12-checkpoint-4").ok());
  REQUIRE(store->Put(Content(4), "j12").ok());
  CHECK(store->PinnedUnder("j1", IdOf(1)));
  CHECK(store->PinnedUnder("j1", IdOf(2)));
  CHECK_FALSE(store->PinnedUnder("j1", IdOf(3)));
  CHECK_FALSE(store->PinnedUnder("j1", IdOf(4)));
  CHECK(store->PinnedUnder("j12", IdOf(3)));
  CHECK_FALSE(store->PinnedUnder("j1-checkpoint-4", IdOf(1)));
}

TEST_CASE("a put says whether the chunk is new, and a writer how much was") {
  MemoryFileSystem files;
  auto store = Open(files);
  bool added = false;
  REQUIRE(store->Put(Content(1), "j1", &added).ok());
  CHECK(added);
  REQUIRE(store->Put(Content(1), "j2", &added).ok());
  CHECK_FALSE(added);
  ChunkWriter writer(*store, "j3");
  REQUIRE(writer.Append(Content(5, kChunkBytes)).ok());
  REQUIRE(writer.Append(Content(1)).ok());
  REQUIRE(writer.Finish("a").ok());
  REQUIRE(writer.Append(Content(6, 10)).ok());
  REQUIRE(writer.Finish("b").ok());
  CHECK(writer.added_bytes() == kChunkBytes + 10);
}

TEST_CASE("a full disk leaves nothing partial behind") {
  MemoryFileSystem files;
  auto store = Open(files);
  REQUIRE(store->Put(Content(1)).ok());
  files.set_capacity_bytes(150);
  CHECK(absl::IsResourceExhausted(store->Put(Content(2)).status()));
  CHECK(store->usage().bytes == 100);
  CHECK(files.used_bytes() == 100);
  files.set_capacity_bytes(250);
  CHECK(store->Put(Content(2)).ok());
}

TEST_CASE("leftovers of interrupted writes are removed at the start") {
  MemoryFileSystem files;
  const std::string hex = IdOf(1).ToHex();
  REQUIRE(files.WriteAtomic("chunks/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".tmp-1-2", "half").ok());
  auto store = Open(files);
  CHECK(store->usage().chunks == 0);
  CHECK(files.used_bytes() == 0);
}

TEST_CASE("a stream is cut into chunks and assembled again") {
  MemoryFileSystem files;
  auto store = Open(files);
  const std::vector<uint8_t> content = Content(7, 2 * kChunkBytes + 5);
  ChunkWriter writer(*store, "upload-1");
  for (size_t at = 0; at < content.size(); at += 300'000) {
    REQUIRE(writer.Append(absl::MakeConstSpan(content).subspan(at, 300'000)).ok());
  }
  Manifest manifest;
  manifest.files.push_back(*writer.Finish("a"));
  manifest.files.push_back(*writer.Finish("empty"));
  REQUIRE(manifest.Check().ok());
  CHECK(manifest.files[0].chunks.size() == 3);
  CHECK(manifest.files[0].chunks[2] ==
        HashBytes(absl::MakeConstSpan(content).subspan(2 * kChunkBytes)));
  CHECK(store->PinnedBy("upload-1", manifest.files[0].chunks[0]));
  auto out = *files.Create("copy", 0600);
  REQUIRE(Assemble(*store, manifest.files[0], *out).ok());
  REQUIRE(out->Commit().ok());
  CHECK(*files.Read("copy") == Buffer(content).view());
  REQUIRE(store->Drop("upload-1").ok());
  auto none = *files.Create("none", 0600);
  CHECK(absl::IsNotFound(Assemble(*store, manifest.files[0], *none)));
}

TEST_CASE("many threads put, get, pin and drop at once") {
  char name[] = "/tmp/gdf-chunks-XXXXXX";
  const std::string folder = mkdtemp(name);
  PosixFileSystem files;
  auto store = *ChunkStore::Open(files, {folder + "/c", 1500});
  std::atomic<int> wrong{0};
  {
    ThreadPool pool(4);
    for (uint64_t worker = 0; worker < 4; ++worker) {
      pool.Submit([&, worker] {
        SeededRng rng(worker);
        const std::string owner = "w" + std::to_string(worker);
        for (int i = 0; i < 150; ++i) {
          const uint64_t seed = rng.Below(20);
          switch (rng.Below(4)) {
            case 0: (void)store->Put(Content(seed)); break;  // may be refused: the cap
            case 1: {
              const auto got = store->Get(IdOf(seed));
              if (got.ok() ? got->view() != Buffer(Content(seed)).view() : !absl::IsNotFound(got.status())) ++wrong;
              break;
            }
            case 2: {
              // What an owner has put and pinned stays until it drops it.
              if (store->Put(Content(seed), owner).ok() && !store->Get(IdOf(seed)).ok()) ++wrong;
              break;
            }
            case 3:
              if (!store->SetPins(owner, {IdOf(seed)}).ok()) ++wrong;
              break;
          }
        }
        if (!store->Drop(owner).ok()) ++wrong;
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(store->usage().bytes <= 1500);
  CHECK(store->usage().bytes == 100 * store->usage().chunks);
  const auto before = store->usage();
  store = *ChunkStore::Open(files, {folder + "/c", 1500});
  CHECK(store->usage().bytes == before.bytes);
  REQUIRE(system(("rm -r " + folder).c_str()) == 0);
}

}  // namespace
}  // namespace gdf::store
