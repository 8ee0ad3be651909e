#include "core/wire/membership_messages.h"

#include <catch2/catch.hpp>

#include "core/wire/artifact_messages.h"
#include "proto/artifacts.pb.h"
#include "proto/membership.pb.h"

namespace gdf::wire {
namespace {

NodeId Node(std::string_view name) { return NodeId(HashBytes(name)); }

template <typename T>
void Refused(const absl::StatusOr<T>& decoded, std::string_view text) {
  INFO(text << ": " << decoded.status());
  CHECK(decoded.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(decoded.status().message()).find(text) != std::string::npos);
}

TEST_CASE("membership messages survive encoding, with all fields") {
  const JoinCall join =
      *DecodeJoinCall(Encode(JoinCall{NetworkId(HashBytes("net")), std::string("\0\xff", 2)}));
  CHECK(join.network == NetworkId(HashBytes("net")));
  CHECK(join.command == std::string("\0\xff", 2));
  const JoinAnswer answer = *DecodeJoinAnswer(Encode(JoinAnswer{"result", "genesis"}));
  CHECK(answer.result == "result");
  CHECK(answer.genesis == "genesis");
  CHECK(DecodeWatchCall(Encode(WatchCall{~uint64_t{0}}))->from_index == ~uint64_t{0});

  WatchUpdate update;
  update.entries = {{7, "a"}, {8, ""}};
  update.log_digest = HashBytes("log");
  update.online = {Node("a"), Node("b")};
  const WatchUpdate decoded = *DecodeWatchUpdate(Encode(update));
  REQUIRE(decoded.entries.size() == 2);
  CHECK(decoded.entries[0].index == 7);
  CHECK(decoded.entries[0].command == "a");
  CHECK(decoded.entries[1].index == 8);
  CHECK(decoded.log_digest == update.log_digest);
  CHECK(decoded.online == update.online);

  const ChunkCall chunk = *DecodeChunkCall(Encode(ChunkCall{JobId{3}, HashBytes("chunk")}));
  CHECK(chunk.job == JobId{3});
  CHECK(chunk.id == HashBytes("chunk"));
  const EpochCall epoch =
      *DecodeEpochCall(Encode(EpochCall{JobId{3}, Epoch{2}, {Node("a")}, "θ lost", Leaving::kPaused}));
  CHECK(epoch.job == JobId{3});
  CHECK(epoch.current == Epoch{2});
  CHECK(epoch.lost == std::vector<NodeId>{Node("a")});
  CHECK(epoch.reason == "θ lost");
  CHECK(epoch.leaving == Leaving::kPaused);
}

TEST_CASE("a watch update tells nobody online from no news of who is") {
  CHECK(!DecodeWatchUpdate(Encode(WatchUpdate{}))->online);
  WatchUpdate changed;
  changed.changes.emplace().left = {Node("a")};
  CHECK(DecodeWatchUpdate(Encode(changed))->changes->left == changed.changes->left);
  CHECK(DecodeWatchUpdate(Encode(changed))->changes->came.empty());
  CHECK(!DecodeWatchUpdate(Encode(changed))->online);
  WatchUpdate nobody;
  nobody.online.emplace();
  CHECK(DecodeWatchUpdate(Encode(nobody))->online->empty());
}

TEST_CASE("malformed membership messages are refused") {
  const std::string garbage = "\xff\xff\xff\xff";
  Refused(DecodeJoinCall(garbage), "join call");
  Refused(DecodeJoinAnswer(garbage), "join answer");
  Refused(DecodeWatchCall(garbage), "watch call");
  Refused(DecodeWatchUpdate(garbage), "watch update");
  Refused(DecodeChunkCall(garbage), "chunk call");
  Refused(DecodeEpochCall(garbage), "epoch call");
  Refused(DecodeJoinCall(""), "32");  // no network id
  Refused(DecodeWatchCall(""), "begins at index 1");
  Refused(DecodeWatchUpdate(""), "32");  // no digest
  Refused(DecodeChunkCall(""), "32");

  v1::WatchUpdate online;
  online.set_log_digest(std::string(32, 'x'));
  online.set_has_presence(true);
  online.add_online("short");
  Refused(DecodeWatchUpdate(online.SerializeAsString()), "32");
  v1::EpochCall lost;
  lost.add_lost(std::string(33, 'x'));
  Refused(DecodeEpochCall(lost.SerializeAsString()), "32");
}

TEST_CASE("membership messages with too many things are refused") {
  WatchUpdate entries;
  entries.entries.resize(kMaxEntriesPerUpdate);
  CHECK(DecodeWatchUpdate(Encode(entries)).ok());
  entries.entries.resize(kMaxEntriesPerUpdate + 1);
  Refused(DecodeWatchUpdate(Encode(entries)), "4097 entries");
  WatchUpdate online;
  online.online.emplace(kMaxOnlineNodes + 1);
  Refused(DecodeWatchUpdate(Encode(online)), "20001 nodes");
  WatchUpdate changes;
  changes.changes.emplace().came.resize(kMaxOnlineNodes + 1);
  Refused(DecodeWatchUpdate(Encode(changes)), "20001 nodes");
  EpochCall lost;
  lost.lost.resize(kMaxLostNodes + 1);
  Refused(DecodeEpochCall(Encode(lost)), "1025 lost nodes");
  v1::EpochCall leaving;
  leaving.set_leaving(3);
  Refused(DecodeEpochCall(leaving.SerializeAsString()), "leaving 3");
  v1::EpochCall reason;
  reason.set_reason(std::string(kMaxEpochReasonBytes + 1, 'x'));
  Refused(DecodeEpochCall(reason.SerializeAsString()), "513 bytes");
}

TEST_CASE("the reason of an epoch call is cut between characters") {
  EpochCall call;
  call.reason = "x";
  for (int i = 0; i < 300; ++i) call.reason += "θ";
  CHECK(DecodeEpochCall(Encode(call))->reason == call.reason.substr(0, 511));
  call.reason = "bad \xfe byte";
  CHECK(DecodeEpochCall(Encode(call))->reason == "bad ? byte");
}

TEST_CASE("artifact messages survive encoding, with all fields") {
  CHECK(DecodeArtifactCall(Encode(ArtifactCall{JobId{9}}))->job == JobId{9});
  const ArtifactHeader header{
      {{"config.json", 100}, {"tokenizer.json", 0}}, 124'439'808, RoundId{40}, HashBytes("theta")};
  const ArtifactHeader decoded = *DecodeArtifactHeader(Encode(header));
  REQUIRE(decoded.files.size() == 2);
  CHECK(decoded.files[0].name == "config.json");
  CHECK(decoded.files[0].size == 100);
  CHECK(decoded.files[1].name == "tokenizer.json");
  CHECK(decoded.num_params == 124'439'808);
  CHECK(decoded.round == RoundId{40});
  CHECK(decoded.theta == HashBytes("theta"));
  CHECK_FALSE(decoded.commit);

  ArtifactHeader committed = header;
  Receipt receipt;
  receipt.tag = {JobId{9}, Epoch{2}, RoundId{39}, 1};
  receipt.voters = {Node("a")};
  receipt.contributions = {{Node("a"), 64}};
  receipt.result = {RoundId{40}, HashBytes("theta"), {}, {0, 12}};
  committed.commit = Commit{receipt, {NodeSignature{{1}, {2}}}};
  CHECK(DecodeArtifactHeader(Encode(committed))->commit == committed.commit);
}

TEST_CASE("artifact headers that name other places or claim too much are refused") {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"),
        std::string("a/b"), std::string("/etc/passwd"), std::string("a\\b"), std::string("a\0b", 3),
        std::string(256, 'x')}) {
    INFO(name);
    Refused(DecodeArtifactHeader(Encode(ArtifactHeader{{{name, 1}}, 1, RoundId{1}, {}})),
            "no plain file name");
  }
  Refused(DecodeArtifactHeader(
              Encode(ArtifactHeader{{{"a", kMaxArtifactFileBytes + 1}}, 1, RoundId{1}, {}})),
          "too large");
  Refused(DecodeArtifactHeader(
              Encode(ArtifactHeader{{{"a", 1}, {"b", ~uint64_t{0}}}, 1, RoundId{1}, {}})),
          "too large");  // the sum would wrap around
  Refused(DecodeArtifactHeader(Encode(ArtifactHeader{{{"a", 1}, {"a", 1}}, 1, RoundId{1}, {}})),
          "twice");
  ArtifactHeader many{{}, 1, RoundId{1}, {}};
  for (size_t i = 0; i <= kMaxArtifactFiles; ++i)
    many.files.push_back({"f" + std::to_string(i), 1});
  Refused(DecodeArtifactHeader(Encode(many)), "65 files");
  Refused(DecodeArtifactHeader(Encode(ArtifactHeader{{}, kMaxArtifactParams + 1, RoundId{1}, {}})),
          "parameters");
  Refused(DecodeArtifactHeader(""), "32");  // no digest
  v1::ArtifactHeader strange;
  strange.set_theta(std::string(32, 't'));
  strange.set_commit("\xff");
  Refused(DecodeArtifactHeader(strange.SerializeAsString()), "commit");
  Refused(DecodeArtifactHeader("\xff\xff"), "malformed");
  Refused(DecodeArtifactCall("\xff\xff"), "malformed");
}

}  // namespace
}  // namespace gdf::wire
