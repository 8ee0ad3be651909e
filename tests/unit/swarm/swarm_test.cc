#include "core/swarm/swarm.h"

#include <catch2/catch.hpp>

#include "core/base/log.h"
#include "tests/sim/sim_network.h"

namespace gdf::swarm {
namespace {

using absl::StatusCode;

constexpr JobId kJob{7};

NodeId IdOf(int number) { return NodeId(HashBytes("node " + std::to_string(number))); }

std::string Content(size_t bytes, uint64_t seed = 1) {
  std::string content(bytes, '\0');
  SeededRng rng(seed);
  rng.Fill(absl::MakeSpan(reinterpret_cast<uint8_t*>(content.data()), content.size()));
  return content;
}

bool Says(const absl::Status& status, StatusCode code, std::string_view text) {
  UNSCOPED_INFO(status);
  return status.code() == code && std::string(status.message()).find(text) != std::string::npos;
}

Task<void> Nothing() { co_return; }

class World {
 public:
  explicit World(sim::NetworkOptions options = {}) : network_(executor_, 1, options) {}
  struct Node {
    NodeId id;
    MemoryFileSystem files;
    std::unique_ptr<sim::SimTransport> transport;
    std::shared_ptr<store::ChunkStore> store;
    std::unique_ptr<Swarm> swarm;  // null: the test serves what it likes
    int asked = 0;                 // by others, for chunks
  };

  Node& Add(uint64_t cap_bytes = ~uint64_t{0}, bool honest = true) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.id = IdOf(static_cast<int>(nodes_.size()));
    node.transport = network_.Join(node.id);
    node.store = *store::ChunkStore::Open(node.files, {.folder = "chunks", .cap_bytes = cap_bytes});
    if (honest) Serve(node);
    return node;
  }
  void Serve(Node& node) {
    node.swarm = std::make_unique<Swarm>(*node.transport, pool_, node.store,
                                         [this, &node](JobId job, NodeId peer) {
                                           ++node.asked;
                                           return job == kJob && members_.contains(peer);
                                         });
  }
  // Puts files into the store of `node`, pinned for the job; the manifest's digest.
  Digest Hold(Node& node, const std::vector<std::pair<std::string, std::string>>& files,
              JobId job = kJob) {
    store::Manifest manifest;
    manifest.name = "data";
    store::ChunkWriter writer(*node.store, OwnerOf(job));
    for (const auto& [path, content] : files) {
      REQUIRE(
          writer.Append({reinterpret_cast<const uint8_t*>(content.data()), content.size()}).ok());
      manifest.files.push_back(*writer.Finish(path));
    }
    const std::string encoded = manifest.Encode();
    return *node.store->Put({reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size()},
                            OwnerOf(job));
  }
  // `to` answers every request for a chunk with `bytes`, in pieces of 1 MiB.
  net::Registration Lie(Node& node, std::string bytes) {
    return node.transport->HandleStream(
        "swarm.chunk",
        [&node, bytes](NodeId, std::unique_ptr<net::Stream> stream) {
          return SendLie(&node, bytes, std::move(stream));
        },
        {});
  }
  absl::StatusOr<store::Manifest> Fetch(
      Node& node, Digest manifest, std::vector<NodeId> holders,
      std::function<void(const FetchProgress&)> on_progress = nullptr,
      std::vector<JobId> kin = {}) {
    std::optional<absl::StatusOr<store::Manifest>> result;
    TaskScope scope(executor_);
    FetchRequest request{kJob, manifest, std::move(holders), std::move(kin)};
    scope.Spawn(Into(node.swarm->Fetch(std::move(request), std::move(on_progress)), &result));
    REQUIRE(executor_.RunUntil([&] { return result.has_value(); }, absl::Minutes(30)));
    return *std::move(result);
  }
  absl::StatusOr<Buffer> FetchChunk(Node& node, store::ChunkId id, std::vector<NodeId> holders) {
    std::optional<absl::StatusOr<Buffer>> result;
    TaskScope scope(executor_);
    scope.Spawn(ChunkInto(node.swarm->FetchChunk(kJob, id, std::move(holders)), &result));
    REQUIRE(executor_.RunUntil([&] { return result.has_value(); }, absl::Minutes(30)));
    return *std::move(result);
  }
  void Admit(const NodeId& id) { members_.insert(id); }
  SimExecutor& executor() { return executor_; }
  sim::SimNetwork& network() { return network_; }

 private:
  static Task<void> Into(Task<absl::StatusOr<store::Manifest>> task,
                         std::optional<absl::StatusOr<store::Manifest>>* result) {
    result->emplace(co_await std::move(task));
  }
  static Task<void> ChunkInto(Task<absl::StatusOr<Buffer>> task, std::optional<absl::StatusOr<Buffer>>* result) {
    result->emplace(co_await std::move(task));
  }
  static Task<void> SendLie(Node* node, std::string bytes, std::unique_ptr<net::Stream> stream) {
    ++node->asked;
    (co_await stream->Receive()).IgnoreError();
    const Buffer whole(bytes);
    for (size_t at = 0; at < whole.size(); at += size_t{1} << 20) {
      Buffer piece = whole.Slice(at, std::min(size_t{1} << 20, whole.size() - at));
      (co_await stream->Send(std::move(piece))).IgnoreError();
    }
    stream->Finish();
  }

  SimExecutor executor_;
  InlinePool pool_;
  sim::SimNetwork network_;
  std::set<NodeId> members_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST_CASE("one chunk comes from whoever has it whole, of what belongs to the job") {
  World world;
  auto& liar = world.Add(~uint64_t{0}, /*honest=*/false);
  auto& without = world.Add();
  auto& holder = world.Add();
  auto& asker = world.Add();
  world.Admit(asker.id);
  const net::Registration lies = world.Lie(liar, "something else");
  const std::string content = Content(100'000);
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  const store::ChunkId id = *holder.store->Put(bytes, "j7-checkpoint-4");  // of one of its checkpoints
  const absl::StatusOr<Buffer> chunk = world.FetchChunk(asker, id, {asker.id, liar.id, without.id, holder.id});
  INFO(chunk.status());
  REQUIRE(chunk.ok());
  CHECK(chunk->view() == content);
  CHECK(liar.asked == 1);
  CHECK_FALSE(asker.store->Has(id));  // what to do with it is the caller's to say

  CHECK(Says(world.FetchChunk(asker, id, {liar.id, without.id}).status(), StatusCode::kUnavailable, "does not belong to job j7"));
  CHECK(Says(world.FetchChunk(asker, id, {liar.id}).status(), StatusCode::kUnavailable, "something else than chunk"));
  CHECK(Says(world.FetchChunk(asker, id, {asker.id}).status(), StatusCode::kUnavailable, "nobody else"));
  CHECK(Says(world.FetchChunk(without, id, {holder.id}).status(), StatusCode::kUnavailable, "no node of job"));
  const store::ChunkId other = *holder.store->Put(bytes.subspan(1), "j71-checkpoint-4");
  CHECK(Says(world.FetchChunk(asker, other, {holder.id}).status(), StatusCode::kUnavailable, "does not belong to job j7"));
}

TEST_CASE("A fetch brings all files, pinned for the job, and tells how far it is") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  const std::string big = Content((size_t{5} << 19) + 7);  // two and a half chunks and 7 bytes
  const Digest digest = w.Hold(a, {{"big", big}, {"dir/small", "hello"}, {"empty", ""}});
  std::vector<FetchProgress> told;
  const auto manifest =
      w.Fetch(b, digest, {a.id}, [&](const FetchProgress& p) { told.push_back(p); });
  INFO(manifest.status());
  REQUIRE(manifest.ok());
  CHECK(manifest->digest() == digest);
  for (const store::ChunkId& id : manifest->Chunks()) CHECK(b.store->PinnedBy("j7", id));
  CHECK(b.store->PinnedBy("j7", digest));
  auto out = *b.files.Create("out", 0600);
  REQUIRE(store::Assemble(*b.store, manifest->files[0], *out).ok());
  REQUIRE(out->Commit().ok());
  CHECK(*b.files.Read("out") == big);
  REQUIRE(told.size() == 4);  // three chunks and one
  CHECK(told.back().bytes_done == big.size() + 5);
  CHECK(told.back().bytes_total == big.size() + 5);
  for (size_t i = 1; i < told.size(); ++i) CHECK(told[i].bytes_done > told[i - 1].bytes_done);

  // A second time there is nothing to fetch.
  const int asked = a.asked;
  CHECK(w.Fetch(b, digest, {a.id}).ok());
  CHECK(a.asked == asked);
}

TEST_CASE("What is here already of a broken off fetch is not fetched again") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  const Digest digest = w.Hold(a, {{"f", Content(size_t{8} << 20)}});
  // Before all nine chunks are there the holder is gone.
  uint64_t answers = 0;
  w.network().set_on_message([&](const sim::SimMessage& m) {
    if (m.from == a.id && ++answers == 6) a.transport.reset();
  });
  CHECK(Says(w.Fetch(b, digest, {a.id}).status(), StatusCode::kUnavailable,
             "is to be had from none of 1 nodes"));
  const size_t here = b.store->usage().chunks;
  CHECK(here >= 2);
  CHECK(here < 9);

  w.network().set_on_message(nullptr);
  World::Node& again = w.Add();
  w.Hold(again, {{"f", Content(size_t{8} << 20)}});
  REQUIRE(w.Fetch(b, digest, {again.id}).ok());
  CHECK(again.asked == static_cast<int>(9 - here));
}

TEST_CASE("Chunks come from several holders, each asked for what it has") {
  World w;
  World::Node &a = w.Add(), &b = w.Add(), &c = w.Add();
  w.Admit(c.id);
  const Digest digest = w.Hold(a, {{"f", Content(size_t{12} << 20)}});
  REQUIRE(w.Hold(b, {{"f", Content(size_t{12} << 20)}}) == digest);
  REQUIRE(w.Fetch(c, digest, {a.id, b.id}).ok());
  CHECK(a.asked > 0);
  CHECK(b.asked > 0);
  CHECK(a.asked + b.asked == 13);

  // One that has only part of it answers for the rest that it has none.
  World::Node &partial = w.Add(), &d = w.Add();
  w.Admit(d.id);
  const store::Manifest manifest = *store::Manifest::Decode(a.store->Get(digest)->view());
  for (size_t i = 0; i < 6; ++i) {
    REQUIRE(partial.store
                ->PutExpected(manifest.files[0].chunks[i],
                              a.store->Get(manifest.files[0].chunks[i])->span(), "j7")
                .ok());
  }
  CHECK(w.Fetch(d, digest, {partial.id, a.id}).ok());
}

TEST_CASE("A holder that sends wrong bytes is named, and the others are used") {
  World w;
  World::Node &liar = w.Add(~uint64_t{0}, false), &honest = w.Add(), &c = w.Add();
  w.Admit(c.id);
  const Digest digest = w.Hold(honest, {{"f", Content(size_t{12} << 20)}});
  std::string lie;
  SECTION("of the right size") { lie = Content(size_t{1} << 20, 99); }
  SECTION("none at all") {}
  SECTION("without end") { lie = Content((size_t{5} << 20), 99); }
  net::Registration lying = w.Lie(liar, lie);
  CHECK(w.Fetch(c, digest, {liar.id, honest.id}).ok());
  CHECK(liar.asked <= 4);  // as many as were under way when it was found out

  World::Node& d = w.Add();
  w.Admit(d.id);
  const absl::Status alone = w.Fetch(d, digest, {liar.id}).status();
  CHECK(Says(alone, StatusCode::kUnavailable, "node " + liar.id.Short()));
  CHECK(d.store->usage().chunks == 0);
}

TEST_CASE("Only the job's nodes get its chunks, and only its chunks") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  const Digest digest = w.Hold(a, {{"f", "secret"}});
  CHECK(Says(w.Fetch(b, digest, {a.id}).status(), StatusCode::kUnavailable,
             "you are no node of job j7"));
  w.Admit(b.id);
  const store::ChunkId foreign =
      *a.store->Put({reinterpret_cast<const uint8_t*>("other"), 5}, "j8");
  CHECK(Says(w.Fetch(b, foreign, {a.id}).status(), StatusCode::kUnavailable,
             "does not belong to job j7"));
  CHECK(w.Fetch(b, digest, {a.id}).ok());
  CHECK(Says(w.Fetch(b, HashBytes("nowhere"), {}).status(), StatusCode::kUnavailable,
             "nobody else is known"));
}

TEST_CASE("What is here of others' jobs is not given to a job that only names it") {
  World w;
  World::Node &thief = w.Add(), &victim = w.Add();
  w.Admit(thief.id);
  w.Admit(victim.id);
  const std::vector<std::pair<std::string, std::string>> secret = {{"f", "secret"}};
  const Digest digest = w.Hold(victim, secret, JobId{3});
  const store::ChunkId chunk = HashBytes("secret");
  CHECK(Says(w.Fetch(victim, digest, {thief.id}).status(), StatusCode::kUnavailable,
             "is to be had from none"));
  CHECK_FALSE(victim.store->PinnedBy("j7", digest));
  CHECK_FALSE(victim.store->PinnedBy("j7", chunk));
  // Nor after a restart, nor when the manifest, which may be small enough to be known, is shown.
  const Buffer manifest = *victim.store->Get(digest);
  REQUIRE(thief.store->PutExpected(digest, manifest.span(), "j7").ok());
  CHECK(w.Fetch(victim, digest, {thief.id}).status().code() == StatusCode::kUnavailable);
  CHECK_FALSE(victim.store->PinnedBy("j7", chunk));
  victim.swarm.reset();
  victim.store = *store::ChunkStore::Open(victim.files, {.folder = "chunks"});
  w.Serve(victim);
  CHECK(w.Fetch(victim, digest, {thief.id}).status().code() == StatusCode::kUnavailable);
  CHECK(w.Fetch(thief, digest, {victim.id}).status().code() == StatusCode::kUnavailable);
  CHECK_FALSE(thief.store->Has(chunk));

  // The same submitter's next job takes what is here; another holder of the data proves it by
  // sending it.
  const int asked = thief.asked;
  World::Node& kept = w.Add();
  w.Hold(kept, secret, JobId{3});
  CHECK(w.Fetch(kept, digest, {thief.id}, nullptr, {JobId{3}}).ok());
  CHECK(thief.asked == asked);
  CHECK(kept.store->PinnedBy("j7", chunk));
  World::Node& holder = w.Add();
  w.Hold(holder, secret);
  CHECK(w.Fetch(victim, digest, {holder.id}).ok());
  CHECK(holder.asked == 1);  // the manifest had come from the thief
  CHECK(victim.store->PinnedBy("j7", chunk));
}

TEST_CASE("A holder that comes back in time is waited for") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  const Digest digest = w.Hold(a, {{"f", Content(100)}});
  w.network().Cut(a.id, b.id);
  w.executor().PostAfter(absl::Seconds(40), [&] { w.network().Heal(a.id, b.id); });
  CHECK(w.Fetch(b, digest, {a.id}).ok());
}

TEST_CASE("A holder that takes requests and stays silent costs seconds, once") {
  World w;
  World::Node &silent = w.Add(~uint64_t{0}, false), &honest = w.Add(), &c = w.Add();
  w.Admit(c.id);
  const Digest digest = w.Hold(honest, {{"f", Content(size_t{12} << 20)}});
  std::vector<std::unique_ptr<net::Stream>> held;
  int asked = 0;
  const net::Registration silence =
      silent.transport->HandleStream("swarm.chunk",
                                     [&](NodeId, std::unique_ptr<net::Stream> stream) {
                                       ++asked;
                                       held.push_back(std::move(stream));
                                       return Nothing();
                                     },
                                     {});
  const absl::Duration begin = w.executor().Monotonic();
  CHECK(w.Fetch(c, digest, {silent.id, honest.id}).ok());
  CHECK(asked >= 1);
  CHECK(asked <= 5);  // the manifest, and as many as were under way when it was found out
  CHECK(w.executor().Monotonic() - begin < absl::Seconds(15));
}

TEST_CASE("A holder on a slow line is heard in the end") {
  sim::NetworkOptions slow;
  slow.bytes_per_sec = 8e3;  // 64 kbit/s: a piece takes 8 s
  World w(slow);
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  const Digest digest = w.Hold(a, {{"f", Content(size_t{300} << 10)}});
  CHECK(w.Fetch(b, digest, {a.id}).ok());
}

TEST_CASE("A chunk that is corrupt on a holder's disk comes from another") {
  World w;
  World::Node &a = w.Add(), &b = w.Add(), &c = w.Add();
  w.Admit(c.id);
  const std::string content = Content(1000);
  const Digest digest = w.Hold(a, {{"f", content}});
  w.Hold(b, {{"f", content}});
  const std::string hex = HashBytes(content).ToHex();
  REQUIRE(a.files.WriteAtomic("chunks/" + hex.substr(0, 2) + "/" + hex.substr(2), "rot").ok());
  CHECK(w.Fetch(c, digest, {a.id, b.id}).ok());
  CHECK(Says(a.store->Get(HashBytes(content)).status(), StatusCode::kNotFound,
             ""));  // it noticed, if it was asked
}

TEST_CASE("A full disk or cap ends a fetch at once and says so") {
  World w;
  World::Node& a = w.Add();
  const Digest digest = w.Hold(a, {{"f", Content(size_t{8} << 20)}});
  World::Node& capped = w.Add(size_t{3} << 20);
  w.Admit(capped.id);
  const absl::Duration begin = w.executor().Monotonic();
  CHECK(w.Fetch(capped, digest, {a.id}).status().code() == StatusCode::kResourceExhausted);
  World::Node& full = w.Add();
  w.Admit(full.id);
  full.files.set_capacity_bytes(size_t{3} << 20);
  CHECK(w.Fetch(full, digest, {a.id}).status().code() == StatusCode::kResourceExhausted);
  CHECK(w.executor().Monotonic() - begin < absl::Seconds(30));
}

TEST_CASE("A manifest larger than one message is fetched; one larger than any chunk is not") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  // 40,000 times the same chunk: 1.28 MB of ids.
  const std::string zeros(store::kChunkBytes, '\0');
  const store::ChunkId zero =
      *a.store->Put({reinterpret_cast<const uint8_t*>(zeros.data()), zeros.size()}, OwnerOf(kJob));
  store::Manifest manifest;
  manifest.name = "data";
  manifest.files.push_back(
      {"zeros", uint64_t{40'000} * store::kChunkBytes, std::vector<store::ChunkId>(40'000, zero)});
  const std::string encoded = manifest.Encode();
  REQUIRE(encoded.size() > net::kMaxMessageBytes);
  const Digest digest = *a.store->Put(
      {reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size()}, OwnerOf(kJob));
  const auto fetched = w.Fetch(b, digest, {a.id});
  INFO(fetched.status());
  REQUIRE(fetched.ok());
  CHECK(*fetched == manifest);
  CHECK(b.store->usage().chunks == 2);

  World::Node& liar = w.Add(~uint64_t{0}, false);
  const std::string huge(store::kMaxChunkBytes + 1, 'x');
  net::Registration lying = w.Lie(liar, huge);
  CHECK(Says(w.Fetch(b, HashBytes(huge), {liar.id}).status(), StatusCode::kUnavailable,
             "something else than chunk"));
}

TEST_CASE("Bytes that are no manifest are refused, though they are what was asked for") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  w.Admit(b.id);
  const Digest digest =
      *a.store->Put({reinterpret_cast<const uint8_t*>("garbage"), 7}, OwnerOf(kJob));
  CHECK(w.Fetch(b, digest, {a.id}).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("Requests for chunks that are malformed or too large are refused") {
  World w;
  World::Node &a = w.Add(), &b = w.Add();
  const auto ask = [&](std::string bytes) {
    std::optional<absl::Status> end;
    struct Body {
      static Task<void> Run(net::Transport& transport, NodeId to, std::string bytes,
                            std::optional<absl::Status>* end) {
        absl::StatusOr<std::unique_ptr<net::Stream>> stream =
            co_await transport.Open(to, "swarm.chunk", net::Priority::kBulk, absl::Seconds(10));
        if (stream.ok()) {
          Buffer request(bytes);
          (co_await (*stream)->Send(std::move(request))).IgnoreError();
          *end = (co_await (*stream)->Receive()).status();
        } else {
          *end = stream.status();
        }
      }
    };
    TaskScope scope(w.executor());
    scope.Spawn(Body::Run(*b.transport, a.id, std::move(bytes), &end));
    REQUIRE(w.executor().RunUntil([&] { return end.has_value(); }));
    return *end;
  };
  CHECK(Says(ask("\xff\xff"), StatusCode::kInvalidArgument, "chunk call"));
  CHECK_FALSE(ask(std::string(10'000, 'x')).ok());
}

}  // namespace
}  // namespace gdf::swarm
