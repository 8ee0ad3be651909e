// One all-reduce in progress; internal to the exchange.
#ifndef GDF_CORE_EXCHANGE_RUN_H_
#define GDF_CORE_EXCHANGE_RUN_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/exchange/exchange.h"
#include "core/exchange/held.h"
#include "core/exchange/link_meter.h"
#include "core/exchange/pieces.h"
#include "core/exchange/routes.h"
#include "core/exchange/shard_plan.h"

namespace gdf::exchange {

// Lives from AllReduce's start to its end. Its tasks die with it; what runs on the pool owns what it touches.
struct Exchange::Run {
  Run(const Context& context, AllReduceRequest request, Held held);
  ~Run();

  // kInvalidArgument when the request contradicts itself, kResourceExhausted without memory for the mean.
  absl::Status Prepare();
  void Start();
  // Takes a peer's stream to this node's shard. The error is the peer's.
  absl::Status Accept(NodeId peer, const wire::ExchangeHello& hello, std::shared_ptr<net::Stream> stream);
  // The first failure ends the run.
  void Fail(absl::Status why);
  void Lose(uint32_t member, const absl::Status& why);
  // From outside: a failure only if something of it is still to come.
  void PeerLost(const NodeId& peer, const absl::Status& why);
  // Until nothing that touches the mean runs on the pool; after `done` nothing more begins there.
  Task<void> AwaitPool();
  Outcome Finish(const absl::Status& status);
  Held TakeHeld() { return std::move(held_); }

  std::optional<uint32_t> IndexOf(const NodeId& node) const;
  const wire::RoundTag& tag() const { return request.tag; }

  const Context context;
  tensor::FlatBuffer into;  // of the request
  const AllReduceRequest request;
  const ShardPlan plan;
  uint32_t self = 0;
  OneShot<absl::Status> done;

 private:
  using StreamPtr = std::shared_ptr<net::Stream>;
  using Streams = std::vector<StreamPtr>;  // by member

  // A stream by which slices come.
  struct Inbound {
    OneShot<StreamPtr> stream;
    std::string means_held;  // by the sender, of the shard's pieces
  };
  // One by which they go, with what need not be sent.
  struct Outbound {
    StreamPtr stream;
    std::string slices_held;
  };
  // Of the mean of a piece, as this node makes it: the member whose frame it is, and the weight of all behind it.
  struct Source {
    uint32_t member = 0;
    float weight = 0;
  };
  using Sources = std::vector<Source>;  // in order of members

  Task<void> Track(Task<absl::Status> task);
  Task<void> MeasureLink();
  // run_reduce.cc: slices come in, means go out
  Task<absl::Status> Own();
  Task<absl::Status> Gate(uint32_t owner);
  Task<absl::Status> SendSums(uint32_t owner, Outbound to, const Streams& senders);
  Task<absl::Status> PassMeans(uint32_t owner, StreamPtr from, const Streams& senders);
  Task<absl::StatusOr<Streams>> AwaitSenders(uint32_t owner, std::string held);
  Task<absl::StatusOr<StreamPtr>> AwaitSender(uint32_t member, uint32_t owner, std::string held);
  Task<absl::Status> OwnPiece(const Sources& sources, const Streams& senders, size_t index);
  Task<absl::StatusOr<std::vector<Buffer>>> Collect(const Sources& sources, const Streams& senders, uint32_t piece);
  Task<absl::StatusOr<Buffer>> Combine(uint32_t owner, const Sources& sources, uint32_t piece,
                                       std::vector<Buffer> frames);
  Task<absl::StatusOr<Buffer>> Contribution(uint32_t member, StreamPtr stream, uint32_t piece);
  Sources SourcesOf(uint32_t owner, const Streams& senders) const;
  // Those of the senders who are to have the mean of the shard's piece of this place.
  std::vector<uint32_t> TakersOf(uint32_t owner, const Streams& senders, size_t index) const;
  Task<absl::Status> SendToAll(const std::vector<uint32_t>& members, const Streams& streams, Buffer frame);
  // run_send.cc: slices go out, means come in
  Task<absl::Status> Use(uint32_t owner);
  Task<absl::StatusOr<Outbound>> Greet(uint32_t owner, std::string means_held);
  Task<absl::StatusOr<std::string>> HearHeld(uint32_t owner, StreamPtr stream);
  Task<absl::Status> SendSlices(uint32_t owner, Outbound to);
  Task<absl::Status> TakeMeans(uint32_t owner, StreamPtr stream, std::string held);
  // One mean, which is decoded into its place.
  Task<absl::StatusOr<Buffer>> TakeMean(uint32_t from, StreamPtr stream, uint32_t piece);
  Task<absl::Status> AwaitEnd(uint32_t owner, StreamPtr stream);
  Task<absl::Status> SendTo(uint32_t member, StreamPtr stream, Buffer frame);
  // A frame of exactly `bytes`; every failure names the member.
  Task<absl::StatusOr<Buffer>> ReceiveFrom(uint32_t member, StreamPtr stream, uint64_t bytes);
  template <typename Work>
  Task<std::invoke_result_t<Work>> OnPool(Work work) {
    ++on_pool_;
    auto result = co_await RunOn(context.pool, context.executor, std::move(work));
    if (--on_pool_ == 0 && done.done()) pool_idle_.Set(true);
    co_return result;
  }
  absl::Status PrepareHeld();
  void DropSumsOfOthers(const std::vector<wire::Contribution>& contributions);
  absl::Status Blame(uint32_t member, const absl::Status& why);
  // Who slices of the owner's pieces go to from here.
  uint32_t next(uint32_t owner) const { return routes_.next(self, owner); }
  bool contributes(uint32_t member) const { return request.members[member].tokens > 0; }
  // It, or anybody whose slices it sends on.
  bool sends(uint32_t member, uint32_t owner) const;
  // Another member, that is not lost.
  bool is_peer(uint32_t member) const { return member != self && !gone_[member]; }
  bool resumed() const { return request.resumes != 0; }
  uint32_t size() const { return static_cast<uint32_t>(request.members.size()); }

  Pieces pieces_;
  Routes routes_;
  std::vector<bool> gone_;  // by member: lost before this attempt
  Held held_;
  int on_pool_ = 0;
  OneShot<bool> pool_idle_;                // set when nothing runs on the pool after `done`
  std::map<std::pair<uint32_t, uint32_t>, Inbound> inbound_;  // by owner and sender
  std::vector<int> owing_;                 // by member: how often it is waited for
  std::vector<bool> using_;                // by member: its shard is not done with
  std::vector<bool> lost_;
  std::vector<StreamPtr> streams_;  // all, to tell peers why it ended
  size_t tasks_left_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  absl::Duration reduce_;
  uint64_t coded_ = 0;  // values that were decoded, added up or encoded in it
  std::optional<LinkMeter> link_;
  net::Registration watch_;
  TaskScope scope_;  // last: its tasks use the rest
};

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_RUN_H_
