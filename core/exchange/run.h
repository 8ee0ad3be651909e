// One all-reduce in progress; internal to the exchange.
#ifndef GDF_CORE_EXCHANGE_RUN_H_
#define GDF_CORE_EXCHANGE_RUN_H_

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/exchange/exchange.h"
#include "core/exchange/held.h"
#include "core/exchange/link_meter.h"
#include "core/exchange/pieces.h"
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

  Task<void> Track(Task<absl::Status> task);
  Task<void> MeasureLink();
  Task<absl::Status> Own();
  Task<absl::Status> TellHeld(uint32_t member, StreamPtr stream);
  Task<absl::Status> OwnPiece(const std::vector<StreamPtr>& streams, size_t index);
  Task<absl::StatusOr<Buffer>> Contribution(uint32_t member, StreamPtr stream, uint32_t piece);
  Task<absl::Status> Use(uint32_t owner);
  Task<absl::StatusOr<std::string>> HearHeld(uint32_t owner, StreamPtr stream);
  Task<absl::Status> SendSlices(uint32_t owner, StreamPtr stream, std::string held);
  Task<absl::Status> TakeMeans(uint32_t owner, StreamPtr stream, std::string held);
  Task<absl::Status> AwaitEnd(uint32_t owner, StreamPtr stream);
  Task<absl::Status> SendTo(uint32_t member, StreamPtr stream, Buffer frame);
  // A frame of exactly `bytes`; every failure names the member.
  Task<absl::StatusOr<Buffer>> ReceiveFrom(uint32_t member, StreamPtr stream, uint64_t bytes);
  template <typename Work>
  Task<std::invoke_result_t<Work>> OnPool(Work work);
  absl::Status PrepareHeld();
  absl::Status Blame(uint32_t member, const absl::Status& why);
  bool contributes(uint32_t member) const { return request.members[member].tokens > 0; }
  // Another member, that is not lost.
  bool is_peer(uint32_t member) const { return member != self && !gone_[member]; }
  bool resumed() const { return request.resumes != 0; }
  uint32_t size() const { return static_cast<uint32_t>(request.members.size()); }

  Pieces pieces_;
  std::vector<bool> gone_;  // by member: lost before this attempt
  Held held_;
  std::vector<std::string> peer_held_;  // by member: of this node's pieces, whose means it holds
  int on_pool_ = 0;
  OneShot<bool> pool_idle_;                // set when nothing runs on the pool after `done`
  std::vector<float> weights_;             // of the contributors, in member order
  std::vector<OneShot<StreamPtr>> inbound_;  // by member
  std::vector<bool> owing_;                // by member: the owner waits for it
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
