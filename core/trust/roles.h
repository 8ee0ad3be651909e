// What a member may do. A member holds a set of roles:
//   admin        runs the network: invites, roles, removals; may also do all that a submitter may
//   submitter    submits jobs and cancels its own
//   contributor  its node takes part in jobs (not implied by admin: an admin's laptop need not train)
// Whoever creates a network holds all three.
#ifndef GDF_CORE_TRUST_ROLES_H_
#define GDF_CORE_TRUST_ROLES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::trust {

enum class Role : uint32_t { kAdmin = 1, kSubmitter = 2, kContributor = 4 };

std::string_view ToString(Role role);  // "admin", "submitter", "contributor"

// A set of roles, as the bit mask that commands, invites and the database carry.
class RoleSet {
 public:
  static constexpr uint32_t kAllBits = 7;

  RoleSet() = default;
  RoleSet(std::initializer_list<Role> roles) {
    for (Role role : roles) bits_ |= static_cast<uint32_t>(role);
  }
  static RoleSet All() { return {Role::kAdmin, Role::kSubmitter, Role::kContributor}; }
  // kInvalidArgument when empty or when an unknown bit is set.
  static absl::StatusOr<RoleSet> FromBits(uint32_t bits);
  // "contributor" or "submitter,contributor"; order and repetition do not matter. kInvalidArgument
  // names the word that is no role.
  static absl::StatusOr<RoleSet> Parse(std::string_view text);

  uint32_t bits() const { return bits_; }
  bool empty() const { return bits_ == 0; }
  bool Has(Role role) const { return (bits_ & static_cast<uint32_t>(role)) != 0; }
  bool HasAny(RoleSet other) const { return (bits_ & other.bits_) != 0; }
  std::string ToString() const;  // "admin,submitter", in the order of the enum; "none" when empty
  bool operator==(const RoleSet&) const = default;

 private:
  uint32_t bits_ = 0;
};

// What is asked of the network. The table of who may is in roles.cc and docs/threat-model.md.
enum class Operation {
  kReadState,     // any role: members, jobs, events
  kCreateInvite,  // admin
  kRevokeInvite,  // admin
  kSetRole,       // admin
  kRemoveNode,    // admin; a node may always remove itself
  kBanNode,       // admin
  kUnbanNode,     // admin
  kSetCoordinators,  // admin
  kUpdateNode,    // any role, of its own node
  kRotateKey,     // any role, of its own key
  kSubmitJob,     // submitter, admin
  kCancelJob,     // submitter of its own jobs, admin of any
  kRollBackJob,   // as kCancelJob
  kTrain,         // contributor: be a member of a job
};

std::string_view ToString(Operation operation);  // "create an invite"

// Roles of which one suffices for `operation`.
RoleSet RolesFor(Operation operation);

// kPermissionDenied: "to create an invite a node needs the role admin; this one has contributor".
absl::Status CheckPermission(RoleSet held, Operation operation);

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_ROLES_H_
