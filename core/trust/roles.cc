#include "core/trust/roles.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace gdf::trust {
namespace {

constexpr Role kRoles[] = {Role::kAdmin, Role::kSubmitter, Role::kContributor};

}  // namespace

std::string_view ToString(Role role) {
  switch (role) {
    case Role::kAdmin: return "admin";
    case Role::kSubmitter: return "submitter";
    case Role::kContributor: return "contributor";
  }
  return "unknown";
}

absl::StatusOr<RoleSet> RoleSet::FromBits(uint32_t bits) {
  if (bits == 0 || (bits & ~kAllBits) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(bits, " is not a set of roles: expected 1 to ", kAllBits,
                     " (1 admin, 2 submitter, 4 contributor, added)"));
  }
  RoleSet set;
  set.bits_ = bits;
  return set;
}

absl::StatusOr<RoleSet> RoleSet::Parse(std::string_view text) {
  RoleSet set;
  for (absl::string_view word : absl::StrSplit(ToAbsl(text), ',')) {
    word = absl::StripAsciiWhitespace(word);
    bool known = false;
    for (const Role role : kRoles) {
      if (ToStd(word) != trust::ToString(role)) continue;
      set.bits_ |= static_cast<uint32_t>(role);
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", word, "' is not a role: expected admin, submitter or contributor, or several with commas"));
    }
  }
  return set;
}

std::string RoleSet::ToString() const {
  std::string text;
  for (const Role role : kRoles) {
    if (!Has(role)) continue;
    if (!text.empty()) text += ',';
    text += trust::ToString(role);
  }
  return text.empty() ? "none" : text;
}

std::string_view ToString(Operation operation) {
  switch (operation) {
    case Operation::kReadState: return "read the network's state";
    case Operation::kCreateInvite: return "create an invite";
    case Operation::kRevokeInvite: return "revoke an invite";
    case Operation::kSetRole: return "change a node's roles";
    case Operation::kRemoveNode: return "remove a node";
    case Operation::kBanNode: return "ban a node";
    case Operation::kUnbanNode: return "lift a ban";
    case Operation::kSetCoordinators: return "choose the coordinators";
    case Operation::kUpdateNode: return "update its own entry";
    case Operation::kRotateKey: return "replace its key";
    case Operation::kSubmitJob: return "submit a job";
    case Operation::kCancelJob: return "cancel a job";
    case Operation::kRollBackJob: return "roll a job back";
    case Operation::kTrain: return "take part in a job";
  }
  return "do this";
}

RoleSet RolesFor(Operation operation) {
  switch (operation) {
    case Operation::kReadState:
    case Operation::kUpdateNode:
    case Operation::kRotateKey: return RoleSet::All();
    case Operation::kCreateInvite:
    case Operation::kRevokeInvite:
    case Operation::kSetRole:
    case Operation::kRemoveNode:
    case Operation::kBanNode:
    case Operation::kUnbanNode: return {Role::kAdmin};
    case Operation::kSetCoordinators: return {Role::kAdmin};
    case Operation::kSubmitJob:
    case Operation::kCancelJob:
    case Operation::kRollBackJob: return {Role::kAdmin, Role::kSubmitter};
    case Operation::kTrain: return {Role::kContributor};
  }
  return {};
}

absl::Status CheckPermission(RoleSet held, Operation operation) {
  const RoleSet needed = RolesFor(operation);
  if (held.HasAny(needed)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "to ", ToAbsl(ToString(operation)), " a node needs the role ",
      absl::StrJoin(absl::StrSplit(needed.ToString(), ','), " or "), "; this one has ", held.ToString(),
      " (an admin can change it: gdfctl node role)"));
}

}  // namespace gdf::trust
