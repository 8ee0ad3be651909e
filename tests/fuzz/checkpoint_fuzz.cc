// links: gdf_checkpoint
// A job's folder with whatever the disk has made of it. The input is a list of files: a byte that
// chooses the name, one that says whether the harness makes a record of it with a checksum that
// holds, a length of two bytes, the content. Loading never fails, and what it gives holds together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/encoding.h"
#include "core/base/hash.h"
#include "core/checkpoint/checkpoint_store.h"

namespace {

using namespace gdf::checkpoint;

constexpr const char* kNames[] = {"state-0000000000000000",
                                  "state-0000000000000001",
                                  "committed-0000000000000000",
                                  "committed-0000000000000001",
                                  "prepared-0000000000000001",
                                  "prepared-0000000000000002",
                                  "worker-0000000000000000",
                                  "worker-0000000000000001",
                                  "epoch",
                                  "previous-epoch",
                                  "state-0000000000000002",
                                  "attempts",
                                  "committed-1",
                                  "worker-99999999999999999999"};
constexpr size_t kNumNames = std::size(kNames);

std::string AsRecord(std::string_view payload) {
  std::string record = "GDFREC2\n";
  record.append(payload);
  return record.append(gdf::AsString(gdf::HashBytes(payload).span()));
}

void WriteFiles(std::string_view bytes, gdf::FileSystem& files) {
  constexpr size_t kHeaderBytes = 4;
  while (bytes.size() >= kHeaderBytes) {
    const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    const size_t length = std::min<size_t>(at(2) | at(3) << 8, bytes.size() - kHeaderBytes);
    const std::string_view content = bytes.substr(kHeaderBytes, length);
    const std::string path = std::string("/job/") + kNames[at(0) % kNumNames];
    GDF_CHECK(files.WriteAtomic(path, at(1) % 2 ? AsRecord(content) : std::string(content)).ok());
    bytes.remove_prefix(kHeaderBytes + length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gdf::MemoryFileSystem files;
  WriteFiles({reinterpret_cast<const char*>(data), size}, files);
  CheckpointStore store(files, {.folder = "/job", .num_params = 2});
  const absl::StatusOr<Loaded> loaded = store.Load();
  GDF_CHECK(loaded.ok());
  if (loaded->committed == nullptr) {
    GDF_CHECK(!loaded->commit && !loaded->prepared && !loaded->worker);
  } else {
    GDF_CHECK(VerifyDigests(*loaded->committed).ok());
    GDF_CHECK(loaded->committed->theta.size() == 2);
    if (loaded->commit) GDF_CHECK(loaded->commit->receipt.result == loaded->committed->id);
    if (loaded->worker) GDF_CHECK(loaded->worker_round <= loaded->committed->id.round);
  }
  GDF_CHECK((loaded->shadow != nullptr) == loaded->prepared.has_value());
  if (loaded->prepared) {
    GDF_CHECK(VerifyDigests(*loaded->shadow).ok());
    GDF_CHECK(loaded->prepared->result == loaded->shadow->id);
    GDF_CHECK(loaded->shadow->id.round == loaded->committed->id.round.next());
  }
  return 0;
}
