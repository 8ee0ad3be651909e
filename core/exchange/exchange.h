// All-reduce between the members of a job: everybody's packed delta in, the same mean out.
// With a dense codec member i owns shard i: it decodes every contribution to it, reduces in member order, encodes once;
// everyone, the owner too, decodes those very bytes. With others everyone gets all contributions and reduces them. Frames of at most 1 MiB flow while others are reduced.
//
//   Exchange exchange({executor, pool, transport, job});
//   Outcome outcome = co_await exchange.AllReduce(std::move(request));
#ifndef GDF_CORE_EXCHANGE_EXCHANGE_H_
#define GDF_CORE_EXCHANGE_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/buffer.h"
#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/base/task.h"
#include "core/compress/codec.h"
#include "core/exchange/held.h"
#include "core/net/transport.h"
#include "core/tensor/flat_buffer.h"
#include "core/wire/round_messages.h"

namespace gdf::exchange {

struct AllReduceRequest {
  wire::RoundTag tag;
  std::vector<wire::Contribution> members;  // in the order of shards and sums; 0 tokens: contributes nothing
  // The attempt of this epoch and round that began the exchange of the same members' same deltas:
  // what is held of it is used, and not sent again. 0: it begins here.
  uint32_t resumes = 0;
  std::vector<NodeId> lost;  // of `members`, in the order of their loss, without tokens
  // Of the delta, that each member owns with a dense codec: wire::kSharesWhole in all; empty: equal.
  std::vector<uint32_t> shares;
  // With a dense codec: where each member is, equal numbers at the same site. Between sites one slice goes for all of
  // a site, the mean of theirs packed once more. Empty: everybody sends to everybody.
  std::vector<uint32_t> sites;
  std::shared_ptr<const compress::Codec> codec;
  uint64_t num_params = 0;
  uint64_t rounding_seed = 0;  // of the mean, with a codec that rounds stochastically: the same at every member
  Buffer packed;            // this node's contribution; empty when it has none
  tensor::FlatBuffer into;  // memory to use again for the mean; taken when it has num_params elements
  absl::Duration deadline;  // from the call
};

struct Outcome {
  // kUnavailable or kDeadlineExceeded naming the peer that was lost; kInvalidArgument naming one that sent what it
  // must not; kAborted when another member gave up first; kCancelled by Cancel().
  absl::Status status;
  std::vector<NodeId> lost;  // who did not deliver what it must, as far as this node can tell
  tensor::FlatBuffer mean;   // [num_params] when OK
  uint64_t payload_sent = 0;  // bytes of frames
  uint64_t payload_received = 0;
  absl::Duration reduce;     // time in decoding, reducing and encoding
  wire::LinkFigures link;    // when OK
};

// Executor only.
class Exchange {
 public:
  struct Context {
    Executor& executor;
    ComputePool& pool;
    net::Transport& transport;
    JobId job;
  };
  // Serves the job's streams until it is destroyed.
  explicit Exchange(Context context);
  ~Exchange();

  // One at a time. The request must name this node among its members, with tokens unless `packed`
  // is empty. Ends by the deadline at the latest, and at once when a peer is known to be gone.
  // Memory: the mean, two frames a peer, and until Forget() the slices received and what was not
  // completed of the mean.
  Task<Outcome> AllReduce(AllReduceRequest request);

  // Ends the call in progress, if any, with kCancelled; peers learn of it.
  void Cancel(const std::string& why);

  // `node` will deliver nothing more to the call of this tag: it ends if it still waits for that
  // node.
  void Lose(const wire::RoundTag& tag, const NodeId& node, const std::string& why);

  // Nobody will resume what has been exchanged so far.
  void Forget();

  // "gdf.exchange/j3"
  static std::string Method(JobId job);

 private:
  struct Run;
  struct Waiting {
    wire::ExchangeHello hello;
    std::unique_ptr<net::Stream> stream;
    absl::Duration until;
  };
  Task<void> Serve(NodeId peer, std::unique_ptr<net::Stream> stream);
  void Adopt(Run& run, NodeId peer, Waiting waiting);

  Context context_;
  std::shared_ptr<Run> run_;  // null between calls
  wire::RoundTag last_;       // of the last call
  Held held_;                 // what it left; nothing while one is in progress
  bool forget_ = false;       // what the call in progress leaves
  std::multimap<NodeId, Waiting> waiting_;  // streams of a call that has not begun here yet
  net::Registration registration_;
};

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_EXCHANGE_H_
