#include "core/membership/succession.h"

#include <variant>

#include "core/trust/node_key.h"
#include "core/wire/state_commands.h"

namespace gdf::membership {

void SuccessionProof::Take(std::string_view bytes) {
  const absl::StatusOr<wire::Command> command = wire::DecodeCommand(bytes);
  if (!command.ok()) return;
  const auto* rotate = std::get_if<wire::RotateKey>(&command->body);
  if (rotate == nullptr) return;
  const absl::StatusOr<trust::KeyRotation> rotation = trust::KeyRotation::Parse(rotate->record);
  if (!rotation.ok() || rotation->network != network_) return;
  if (trust::NodeIdOf(rotation->old_key) == current_) {
    current_ = trust::NodeIdOf(rotation->new_key);
  }
}

}  // namespace gdf::membership
