// links: gdf_checkpoint
// The record of a kept checkpoint. The first byte of the input says whether the harness signs what follows, so that its
// fields are reached behind a signature that holds. What is decoded says again what it said.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/checkpoint/version.h"

namespace {

using namespace gdf::checkpoint;

std::string Signed(std::string_view fields, const gdf::trust::NodeKey& key) {
  std::string record(fields);
  record.append(reinterpret_cast<const char*>(key.public_key().data()), key.public_key().size());
  const gdf::trust::Signature signature = key.Sign("gdf checkpoint 1", record);
  return record.append(reinterpret_cast<const char*>(signature.data()), signature.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const gdf::trust::NodeKey key = gdf::trust::NodeKey::FromSeed({7});
  const std::string_view fields(reinterpret_cast<const char*>(data) + 1, size - 1);
  const absl::StatusOr<Version> version = DecodeVersion(data[0] % 2 == 1 ? Signed(fields, key) : std::string(fields));
  if (!version.ok()) return 0;
  GDF_CHECK(version->num_params > 0);
  GDF_CHECK(version->outer.zero() == (!version->holds() || version->num_momentum == 0));
  const absl::StatusOr<Version> again = DecodeVersion(EncodeVersion(*version, key));
  GDF_CHECK(again.ok());
  Version expected = *version;
  expected.node = key.id();
  GDF_CHECK(*again == expected);
  return 0;
}
