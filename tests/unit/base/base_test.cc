#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "core/base/encoding.h"
#include "core/base/file_system.h"
#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/name.h"
#include "core/base/regular_file.h"
#include "core/base/rng.h"
#include "core/base/text.h"

namespace gdf {
namespace {

TEST_CASE("SHA-256 of the FIPS 180-2 example") {
  CHECK(HashBytes("abc").ToHex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("base32 agrees with RFC 4648 section 10 and has one text per value") {
  CHECK(Base32Encode(AsBytes("foobar")) == "mzxw6ytboi");
  CHECK(Base32Encode(AsBytes("fooba")) == "mzxw6ytb");
  CHECK(Base32Decode("MZXW6YTBOI").value() == "foobar");
  CHECK_FALSE(Base32Decode("mzxw6ytbo").ok());   // impossible length
  CHECK_FALSE(Base32Decode("mz1").ok());         // foreign character
  CHECK_FALSE(Base32Decode("mzxw6ytboj").ok());  // set trailing bits
}

TEST_CASE("safe text is what CheckText accepts, cut between characters") {
  CHECK(SafeText("a\nb\tc", 9) == "a\nb\tc");
  CHECK(SafeText("θθθ", 6) == "θθθ");
  CHECK(SafeText("θθθ", 5) == "θθ");  // 2 bytes each
  CHECK(SafeText("θθθ", 0).empty());
  CHECK(SafeText("a\xff\x1b[31mb\xce", 99) == "a??[31mb?");
  CHECK(SafeText("\xed\xa0\x80", 99) == "???");  // a surrogate
  CHECK(SafeText("a\u202Eb\u2066c\u2028d", 99) == "a?b?c?d");
  CHECK(SafeText("\u200F\u2013\u20AC\u2070", 99) == "\u200F\u2013\u20AC\u2070");
  CHECK(CheckText("t", SafeText("\xce\xce\xb8\x7f\xc2\x85", 4), 4).ok());
}

TEST_CASE("the Merkle root binds content, order and length") {
  std::vector<uint8_t> data(3 * kMerkleLeafBytes + 5, 7);
  const Digest root = MerkleRoot(data);
  std::vector<Digest> leaves;
  for (size_t at = 0; at < data.size(); at += kMerkleLeafBytes) {
    leaves.push_back(MerkleLeaf(absl::MakeConstSpan(data).subspan(at, kMerkleLeafBytes)));
  }
  CHECK(leaves.size() == 4);
  CHECK(MerkleRootOfLeaves(leaves, data.size()) == root);
  data.back() ^= 1;
  CHECK(MerkleRoot(data) != root);
  data.back() ^= 1;
  data.push_back(0);
  CHECK(MerkleRoot(data) != root);
  CHECK(MerkleRoot({}) != Digest{});
}

TEST_CASE("ids read what they print") {
  const NodeId id(HashBytes("node"));
  CHECK(NodeId::Parse(id.ToString()).value() == id);
  CHECK_FALSE(NodeId::Parse("abc").ok());
  CHECK(ParseJobId("j17").value() == JobId{17});
  CHECK(ParseJobId("17").value() == JobId{17});
  for (const char* bad : {"", "j", "j0", "jx", "-1", "j18446744073709551616"}) CHECK_FALSE(ParseJobId(bad).ok());
}

TEST_CASE("SplitMix64 gives the published sequence for seed 1234567") {
  SeededRng rng(1234567);
  CHECK(rng.Next() == 6457827717110365317u);
  CHECK(rng.Next() == 3203168211198807973u);
  CHECK(MixSeed(1, 2, 3) == MixSeed(1, 2, 3));
  CHECK(MixSeed(1, 2, 3) != MixSeed(1, 3, 2));
}

TEST_CASE("texts for people") {
  CHECK(HumanBytes(1023) == "1023 B");
  CHECK(HumanBytes(1536) == "1.5 KiB");
  CHECK(HumanBytes(uint64_t{1} << 30) == "1.0 GiB");
  CHECK(HumanDuration(absl::Milliseconds(350)) == "350 ms");
  CHECK(Counted(0, "node") == "0 nodes");
  CHECK(Counted(1, "node") == "1 node");
  CHECK(Counted(2, "node") == "2 nodes");
  CHECK(HumanDuration(absl::Seconds(250)) == "4 min 10 s");
}

TEST_CASE("log lines quote what would break them") {
  CHECK(FormatLogLine(LogLevel::kInfo, "e", {{"why", "\u009B" "31m\xff"}}) == "level=info event=e why=\"?31m?\"");
  CHECK(FormatLogLine(LogLevel::kInfo, "peer_up", {{"node", "abc"}, {"rtt_ms", 3}, {"why", "a \"b\"\n"}}) ==
        "level=info event=peer_up node=abc rtt_ms=3 why=\"a \\\"b\\\"\\n\"");
}

void CheckFileSystem(FileSystem& fs, const std::string& root) {
  const std::string path = root + "/a/b";
  REQUIRE(fs.MakeFolders(root + "/a", 0700).ok());
  CHECK(fs.Read(path).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(fs.WriteAtomic(path, "hello").ok());
  CHECK(fs.Read(path).value() == "hello");
  CHECK(fs.Read(path, 4).status().code() == absl::StatusCode::kResourceExhausted);
  {
    auto file = fs.Create(path, 0600);
    REQUIRE(file.ok());
    REQUIRE((*file)->Append(AsBytes("lost")).ok());
  }
  CHECK(fs.Read(path).value() == "hello");
  CHECK(fs.List(root + "/a").value() == std::vector<std::string>{"b"});
  CHECK(fs.Stat(path)->size == 5);
  CHECK(fs.Rename(path, root + "/a/c").ok());
  CHECK_FALSE(fs.Exists(path));
  CHECK(fs.Remove(root + "/a/c").ok());
  REQUIRE(fs.MakeFolders(root + "/t/u", 0700).ok());
  REQUIRE(fs.WriteAtomic(root + "/t/u/x", "1").ok());
  REQUIRE(fs.WriteAtomic(root + "/t/y", "2").ok());
  CHECK(fs.RemoveTree(root + "/t").ok());
  CHECK_FALSE(fs.Exists(root + "/t"));
  CHECK(fs.RemoveTree(root + "/t").ok());
}

TEST_CASE("both file systems keep the same promises") {
  MemoryFileSystem memory;
  CheckFileSystem(memory, "/m");
  char folder[] = "/tmp/gdf-fs-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  PosixFileSystem posix;
  CheckFileSystem(posix, folder);
  CHECK(posix.Remove(std::string(folder) + "/a").ok());
  CHECK(posix.Remove(folder).ok());
}

TEST_CASE("a full disk is reported as such and leaves the old file") {
  MemoryFileSystem fs;
  REQUIRE(fs.WriteAtomic("/x", "old").ok());
  fs.set_capacity_bytes(5);
  CHECK(fs.WriteAtomic("/x", "newer").code() == absl::StatusCode::kResourceExhausted);
  CHECK(fs.Read("/x").value() == "old");
}

TEST_CASE("what is no regular file is refused by name, and nothing waits for it") {
  char folder[] = "/tmp/gdf-fs-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/f", target = path + "-target";
  PosixFileSystem fs;
  REQUIRE(fs.WriteAtomic(target, "text").ok());
  const auto refused = [](const absl::Status& status, const std::string& name) {
    return absl::IsInvalidArgument(status) && absl::StrContains(status.message(), name);
  };
  SECTION("a pipe") { REQUIRE(mkfifo(path.c_str(), 0600) == 0); }
  SECTION("a device") { REQUIRE(symlink("/dev/zero", path.c_str()) == 0); }
  SECTION("a folder") { REQUIRE(mkdir(path.c_str(), 0700) == 0); }
  SECTION("a socket") {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    close(fd);
  }
  CHECK(refused(fs.Read(path).status(), path));
  CHECK(refused(OpenRegularFile(path, O_RDONLY | O_NOFOLLOW).status(), path));
  CHECK(absl::StrContains(LogToFile(path).message(), path));
  CHECK(fs.Remove(path).ok());

  REQUIRE(symlink(target.c_str(), path.c_str()) == 0);
  CHECK(fs.Read(path).value() == "text");
  CHECK(refused(OpenRegularFile(path, O_RDONLY | O_NOFOLLOW).status(), "symbolic link"));
  CHECK(fs.RemoveTree(folder).ok());
}

}  // namespace
}  // namespace gdf
