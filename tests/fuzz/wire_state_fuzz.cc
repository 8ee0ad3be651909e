// links: gdf_wire gdf_store
// Commands, their results and manifests from peers. What decodes must encode to something that decodes to the same.
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/store/manifest.h"
#include "core/wire/state_commands.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto command = gdf::wire::DecodeCommand(bytes); command.ok()) {
    const auto again = gdf::wire::DecodeCommand(gdf::wire::EncodeCommand(*command));
    GDF_CHECK(again.ok() && *again == *command);
  }
  if (const auto result = gdf::wire::DecodeCommandResult(bytes); result.ok()) {
    GDF_CHECK(gdf::wire::DecodeCommandResult(gdf::wire::EncodeCommandResult(*result)).ok());
  }
  if (const auto manifest = gdf::store::Manifest::Decode(bytes); manifest.ok()) {
    GDF_CHECK(manifest->Encode() == bytes);
  }
  return 0;
}
