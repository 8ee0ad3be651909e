// links: gdf_trust
// Text and records that a stranger hands over: invites, genesis records, key rotations.
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/trust/genesis.h"
#include "core/trust/invite.h"
#include "core/trust/node_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto invite = gdf::trust::Invite::Parse(bytes); invite.ok()) {
    const auto text = invite->ToText();
    GDF_CHECK(text.ok());
    GDF_CHECK(*gdf::trust::Invite::Parse(*text) == *invite);
  }
  (void)gdf::trust::Genesis::Parse(bytes);
  (void)gdf::trust::KeyRotation::Parse(bytes);
  return 0;
}
