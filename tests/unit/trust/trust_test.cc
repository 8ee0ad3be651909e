#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>


#include "core/base/encoding.h"
#include "core/trust/genesis.h"
#include "core/trust/invite.h"
#include "core/trust/lock_file.h"
#include "core/trust/node_key.h"
#include "core/trust/roles.h"

namespace gdf::trust {
namespace {

NodeKey Key(uint64_t seed) {
  SeededRng rng(seed);
  return NodeKey::Generate(rng);
}

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/gdf-trust-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() {
    for (const char* file : {"node.key", "lock"}) unlink((path_ + "/" + file).c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool Says(const absl::Status& status, std::string_view text) {
  INFO(status);
  return std::string(status.message()).find(text) != std::string::npos;
}

// RFC 8032, section 7.1, TEST 1: the public key of this seed.
TEST_CASE("a seed gives RFC 8032's public key") {
  NodeKey::Seed seed;
  const std::string raw = *HexDecode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  std::copy(raw.begin(), raw.end(), seed.begin());
  const NodeKey key = NodeKey::FromSeed(seed);
  CHECK(HexEncode(key.public_key()) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  CHECK(AsString(key.private_seed()) == raw);
  CHECK(key.id().digest() == HashBytes(absl::MakeConstSpan(key.public_key())));
}

TEST_CASE("a signature holds for its key, label and message only") {
  const NodeKey key = Key(1);
  const Signature signature = key.Sign("receipt", "message");
  CHECK(Verify(key.public_key(), "receipt", "message", signature).ok());
  CHECK(absl::IsPermissionDenied(Verify(Key(2).public_key(), "receipt", "message", signature)));
  CHECK(absl::IsPermissionDenied(Verify(key.public_key(), "receipt", "messagf", signature)));
  CHECK(absl::IsPermissionDenied(Verify(key.public_key(), "genesis", "message", signature)));
  CHECK(absl::IsPermissionDenied(Verify(key.public_key(), "receiptm", "essage", signature)));
  Signature flipped = signature;
  flipped[40] ^= 1;
  CHECK(absl::IsPermissionDenied(Verify(key.public_key(), "receipt", "message", flipped)));
}

TEST_CASE("a key file is made once, with mode 0600, and read back") {
  Folder folder;
  PosixFileSystem files;
  SystemRng rng;
  const std::string path = folder.path() + "/node.key";
  CHECK(absl::IsNotFound(NodeKey::Load(files, path).status()));
  const NodeId first = NodeKey::LoadOrCreate(files, path, rng)->id();
  CHECK(files.Stat(path)->mode == 0600);
  CHECK(NodeKey::LoadOrCreate(files, path, rng)->id() == first);
  CHECK(NodeKey::Load(files, path)->id() == first);
}

TEST_CASE("a key file that others may read is refused with the command that mends it") {
  Folder folder;
  PosixFileSystem files;
  const std::string path = folder.path() + "/node.key";
  REQUIRE(Key(3).Save(files, path).ok());
  for (const mode_t mode : {0640, 0604, 0660, 0601}) {
    chmod(path.c_str(), mode);
    const absl::Status status = NodeKey::Load(files, path).status();
    CHECK(absl::IsPermissionDenied(status));
    CHECK(Says(status, "chmod 600 " + path));
  }
  chmod(path.c_str(), 0400);
  CHECK(NodeKey::Load(files, path)->id() == Key(3).id());
  if (geteuid() == 0) {
    REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
    CHECK(Says(NodeKey::Load(files, path).status(), "belongs to another user"));
  }
}

TEST_CASE("a damaged key file is data loss, never another key") {
  Folder folder;
  PosixFileSystem files;
  const std::string path = folder.path() + "/node.key";
  REQUIRE(Key(4).Save(files, path).ok());
  const std::string good = *files.Read(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == 'a' ? 'b' : 'a';
    REQUIRE(files.WriteAtomic(path, bad).ok());
    CHECK(absl::IsDataLoss(NodeKey::Load(files, path).status()));
    REQUIRE(files.WriteAtomic(path, good.substr(0, i)).ok());
    CHECK(absl::IsDataLoss(NodeKey::Load(files, path).status()));
  }
}

TEST_CASE("a key rotation needs both keys") {
  const NetworkId network(HashBytes("network"));
  const NodeKey old_key = Key(5), new_key = Key(6);
  const std::string record = KeyRotation::Make(network, old_key, new_key, 1'700'000'000'000);
  const auto rotation = KeyRotation::Parse(record);
  REQUIRE(rotation.ok());
  CHECK(rotation->network == network);
  CHECK(rotation->old_key == old_key.public_key());
  CHECK(rotation->new_key == new_key.public_key());
  CHECK(rotation->at_unix_ms == 1'700'000'000'000);
  for (size_t i = 0; i < record.size(); ++i) {
    std::string bad = record;
    bad[i] ^= 1;
    CHECK_FALSE(KeyRotation::Parse(bad).ok());
    CHECK(absl::IsInvalidArgument(KeyRotation::Parse(record.substr(0, i)).status()));
  }
}

Genesis MakeGenesis(const NodeKey& key) {
  Genesis genesis;
  genesis.name = "my-net";
  genesis.created_unix_ms = 1'700'000'000'000;
  genesis.coordinator_key = key.public_key();
  return genesis;
}

TEST_CASE("a genesis reads back, and no byte of it can change") {
  const NodeKey key = Key(7);
  const Genesis genesis = MakeGenesis(key);
  const std::string record = *genesis.Sign(key);
  CHECK(*Genesis::Parse(record) == genesis);
  CHECK(*genesis.Sign(key) == record);
  CHECK(NetworkIdOf(record).digest() == HashBytes(std::string_view(record)));
  for (size_t i = 0; i < record.size(); ++i) {
    std::string bad = record;
    bad[i] ^= 1;
    CHECK_FALSE(Genesis::Parse(bad).ok());
    CHECK(absl::IsInvalidArgument(Genesis::Parse(record.substr(0, i)).status()));
  }
  CHECK_FALSE(Genesis::Parse(record + "x").ok());
}

TEST_CASE("a genesis is signed by the coordinator it names, with values in range") {
  Genesis genesis = MakeGenesis(Key(7));
  CHECK(Says(genesis.Sign(Key(8)).status(), "is signed by"));
  genesis.name = "../net";
  CHECK(Says(genesis.Sign(Key(7)).status(), "'../net' is not a name"));
  genesis = MakeGenesis(Key(7));
  genesis.policy.max_members = 0;
  CHECK(Says(genesis.Sign(Key(7)).status(), "max_members is 0"));
}

Invite MakeInvite() {
  Invite invite;
  invite.network = NetworkId(HashBytes("network"));
  SeededRng rng(9);
  invite.Randomize(rng);
  invite.roles = {Role::kContributor};
  invite.expires_unix_ms = 1'700'000'000'000;
  invite.coordinators = {{Key(1).id(), {"192.0.2.1:7420", "[2001:db8::1]:7420"}}, {Key(2).id(), {"gpu.example:1"}}};
  return invite;
}

TEST_CASE("an invite survives its text in either case") {
  const Invite invite = MakeInvite();
  const std::string text = *invite.ToText();
  CHECK(text.compare(0, 5, "gdf1:") == 0);
  CHECK(*Invite::Parse(text) == invite);
  CHECK(*Invite::Parse("  " + text + "\n") == invite);
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(toupper(c));
  CHECK(*Invite::Parse(upper) == invite);
}

TEST_CASE("every altered character and every cut of an invite is noticed") {
  const std::string text = *MakeInvite().ToText();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string bad = text;
    bad[i] = bad[i] == 'b' ? 'c' : 'b';
    CHECK(absl::IsInvalidArgument(Invite::Parse(bad).status()));
    CHECK(absl::IsInvalidArgument(Invite::Parse(text.substr(0, i)).status()));
  }
  CHECK(Says(Invite::Parse(text.substr(0, 60)).status(), "cut short"));
  CHECK(Says(Invite::Parse("hello").status(), "does not start with 'gdf1:'"));
  CHECK(Says(Invite::Parse("gdf2:" + text.substr(5)).status(), "version 2"));
  CHECK(Says(Invite::Parse(std::string(100'000, 'a')).status(), "too long"));
}

TEST_CASE("an invite out of range has no text") {
  Invite invite = MakeInvite();
  invite.coordinators.clear();
  CHECK(Says(invite.ToText().status(), "names 0 coordinators"));
  invite = MakeInvite();
  invite.coordinators.resize(6, invite.coordinators[0]);
  CHECK(Says(invite.ToText().status(), "names 6 coordinators"));
  invite = MakeInvite();
  invite.roles = {};
  CHECK(Says(invite.ToText().status(), "no role"));
  invite = MakeInvite();
  invite.coordinators[0].addresses[0].assign(256, 'a');
  CHECK_FALSE(invite.ToText().ok());
}

TEST_CASE("the hash of an invite's secret depends on its id and secret") {
  const Invite invite = MakeInvite();
  Invite other = invite;
  CHECK(InviteSecretHash(invite.id, invite.secret) == InviteSecretHash(other.id, other.secret));
  other.id[0] ^= 1;
  CHECK(InviteSecretHash(invite.id, invite.secret) != InviteSecretHash(other.id, other.secret));
  other = invite;
  other.secret[19] ^= 1;
  CHECK(InviteSecretHash(invite.id, invite.secret) != InviteSecretHash(other.id, other.secret));
  CHECK(*ParseInviteId(ToString(invite.id)) == invite.id);
  CHECK(absl::IsInvalidArgument(ParseInviteId("12").status()));
}

TEST_CASE("role sets are written and read") {
  CHECK(RoleSet::Parse("contributor, admin")->ToString() == "admin,contributor");
  CHECK(*RoleSet::Parse("submitter,submitter") == RoleSet{Role::kSubmitter});
  CHECK(Says(RoleSet::Parse("admin,root").status(), "'root' is not a role"));
  CHECK_FALSE(RoleSet::Parse("").ok());
  CHECK_FALSE(RoleSet::FromBits(0).ok());
  CHECK_FALSE(RoleSet::FromBits(8).ok());
  CHECK(*RoleSet::FromBits(7) == RoleSet::All());
}

// The table of docs/threat-model.md, written out.
TEST_CASE("each operation is open to the roles of the table") {
  const auto may = [](Role role, Operation operation) { return CheckPermission({role}, operation).ok(); };
  for (const Operation operation : {Operation::kCreateInvite, Operation::kRevokeInvite, Operation::kSetRole,
                                    Operation::kRemoveNode, Operation::kBanNode, Operation::kUnbanNode,
                                    Operation::kSetCoordinators}) {
    CHECK(may(Role::kAdmin, operation));
    CHECK_FALSE(may(Role::kSubmitter, operation));
    CHECK_FALSE(may(Role::kContributor, operation));
  }
  for (const Operation operation : {Operation::kSubmitJob, Operation::kCancelJob}) {
    CHECK(may(Role::kAdmin, operation));
    CHECK(may(Role::kSubmitter, operation));
    CHECK_FALSE(may(Role::kContributor, operation));
  }
  for (const Operation operation : {Operation::kReadState, Operation::kUpdateNode, Operation::kRotateKey}) {
    for (const Role role : {Role::kAdmin, Role::kSubmitter, Role::kContributor}) CHECK(may(role, operation));
  }
  CHECK_FALSE(may(Role::kAdmin, Operation::kTrain));
  CHECK(may(Role::kContributor, Operation::kTrain));
  CHECK(Says(CheckPermission({Role::kContributor}, Operation::kSubmitJob),
             "to submit a job a node needs the role admin or submitter; this one has contributor"));
}

TEST_CASE("a state folder is locked by one process, which the message names") {
  Folder folder;
  const std::string path = folder.path() + "/lock";
  {
    auto lock = LockFile::Acquire(path);
    REQUIRE(lock.ok());
    const absl::Status second = LockFile::Acquire(path).status();
    CHECK(absl::IsUnavailable(second));
    CHECK(Says(second, "(process " + std::to_string(getpid()) + ")"));
    LockFile moved = *std::move(lock);
    CHECK(absl::IsUnavailable(LockFile::Acquire(path).status()));
  }
  CHECK(LockFile::Acquire(path).ok());
}

TEST_CASE("a lock ends with the process that held it") {
  Folder folder;
  const std::string path = folder.path() + "/lock";
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = LockFile::Acquire(path);
    _exit(lock.ok() ? 0 : 1);  // without unlocking
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(LockFile::Acquire(path).ok());
}

}  // namespace
}  // namespace gdf::trust
