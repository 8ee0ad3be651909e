#include "core/swarm/swarm.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace gdf::swarm {
namespace {

// Chunks asked for at the same time by one fetch: fills a link of 100 ms and 300 Mbit/s, 4 MiB of
// memory.
constexpr int kParallel = 4;
constexpr absl::Duration kChunkTimeout = absl::Seconds(60);  // 1 MiB in it: 140 kbit/s
// How long a holder may send nothing: 100 kbit/s. Doubled for one that was silent, up to
// kChunkTimeout, so that a slower one is heard in the end.
constexpr absl::Duration kFirstSilence = absl::Seconds(5);
constexpr absl::Duration kRequestTimeout = absl::Seconds(10);
constexpr size_t kPieceBytes = size_t{1} << 16;  // of a chunk in one message: signs of life
constexpr size_t kMaxRequestBytes = 256;
constexpr int kMaxServedPerPeer = 4 * kParallel;  // four jobs at a time
constexpr size_t kChunksPerPin = 256;             // received between two writes of the job's pins
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLastPause = absl::Seconds(5);

}  // namespace

std::string OwnerOf(JobId job) { return ToString(job); }

// One Fetch in progress.
struct Swarm::Job {
  JobId id;
  std::string owner;
  std::vector<NodeId> holders;
  std::vector<store::ChunkId> here;  // of the manifest, when the fetch began
  std::vector<store::ChunkId> wanted;
  size_t next = 0;      // of wanted
  size_t received = 0;  // since the last Pin
  std::map<store::ChunkId, uint64_t> sizes;
  FetchProgress progress;
  std::function<void(const FetchProgress&)> on_progress;
  absl::Duration last_success;
  std::set<NodeId> liars;  // sent bytes that are not the chunk's: not asked again
  std::map<NodeId, absl::Duration> silence;  // that is borne of a holder which was silent
  absl::Status local;      // why nothing can be stored here
};

Swarm::Swarm(net::Transport& transport, ComputePool& pool, std::shared_ptr<store::ChunkStore> store,
             Authorise authorise)
    : transport_(transport),
      pool_(pool),
      store_(std::move(store)),
      authorise_(std::move(authorise)) {
  net::MethodOptions options;
  options.max_message_bytes = kMaxRequestBytes;
  options.max_concurrent_per_peer = kMaxServedPerPeer;
  registration_ = transport_.HandleStream(
      "swarm.chunk",
      [this](NodeId peer, std::unique_ptr<net::Stream> stream) {
        return Serve(peer, std::move(stream));
      },
      options);
}

Task<absl::StatusOr<Buffer>> Swarm::Load(store::ChunkId id) {
  auto load = [store = store_, id] { return store->Get(id); };
  co_return co_await RunOn(pool_, transport_.executor(), std::move(load));
}

Task<void> Swarm::Serve(NodeId peer, std::unique_ptr<net::Stream> stream) {
  const absl::Status served = co_await Answer(peer, *stream);
  if (!served.ok()) stream->Cancel(served);
}

Task<absl::Status> Swarm::Answer(NodeId peer, net::Stream& stream) {
  absl::StatusOr<std::optional<Buffer>> request = co_await stream.Receive(kRequestTimeout);
  GDF_CO_RETURN_IF_ERROR(request.status());
  if (!request->has_value()) co_return absl::InvalidArgumentError("no chunk was asked for");
  GDF_CO_ASSIGN_OR_RETURN(wire::ChunkCall call, wire::DecodeChunkCall((*request)->view()));
  if (!authorise_(call.job, peer)) {
    co_return absl::PermissionDeniedError(
        absl::StrCat("you are no node of job ", ToString(call.job)));
  }
  if (!store_->PinnedUnder(OwnerOf(call.job), call.id)) {
    co_return absl::NotFoundError(
        absl::StrCat("chunk ", call.id.Short(), " does not belong to job ", ToString(call.job)));
  }
  GDF_CO_ASSIGN_OR_RETURN(Buffer chunk, co_await Load(call.id));
  for (size_t at = 0; at < chunk.size(); at += kPieceBytes) {
    Buffer piece = chunk.Slice(at, std::min(kPieceBytes, chunk.size() - at));
    GDF_CO_RETURN_IF_ERROR(co_await stream.Send(std::move(piece)));
  }
  stream.Finish();
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> Swarm::Ask(NodeId holder, wire::ChunkCall call,
                                        absl::Duration silence) {
  const Clock& clock = transport_.executor().clock();
  const absl::Duration end = clock.Monotonic() + kChunkTimeout;
  GDF_CO_ASSIGN_OR_RETURN(
      std::unique_ptr<net::Stream> stream,
      co_await transport_.Open(holder, "swarm.chunk", net::Priority::kBulk, silence));
  Buffer request(wire::Encode(call));
  GDF_CO_RETURN_IF_ERROR(co_await stream->Send(std::move(request)));
  stream->Finish();
  std::vector<Buffer> pieces;
  size_t total = 0;
  while (true) {
    const absl::Duration wait = std::min(silence, end - clock.Monotonic());
    absl::StatusOr<std::optional<Buffer>> piece = co_await stream->Receive(wait);
    GDF_CO_RETURN_IF_ERROR(piece.status());
    if (!piece->has_value()) break;
    total += (*piece)->size();
    if (total > store::kMaxChunkBytes || (*piece)->empty()) {
      co_return absl::DataLossError(
          absl::StrCat("it sends something else than chunk ", call.id.Short()));
    }
    pieces.push_back(**std::move(piece));
  }
  std::vector<uint8_t> whole;
  whole.reserve(total);
  for (const Buffer& piece : pieces)
    whole.insert(whole.end(), piece.span().begin(), piece.span().end());
  co_return Buffer(std::move(whole));
}

Task<absl::StatusOr<Buffer>> Swarm::FetchChunk(JobId job, store::ChunkId id, std::vector<NodeId> holders) {
  absl::Status last = absl::UnavailableError("nobody else is known to have it");
  for (const NodeId& holder : holders) {
    if (holder == transport_.self()) continue;
    const wire::ChunkCall call{job, id};
    absl::StatusOr<Buffer> chunk = co_await Ask(holder, call, kFirstSilence);
    if (chunk.ok()) {
      auto check = [bytes = *chunk] { return HashBytes(bytes.span()); };
      if (co_await RunOn(pool_, transport_.executor(), std::move(check)) == id) co_return chunk;
      chunk = absl::DataLossError(absl::StrCat("it sends something else than chunk ", id.Short()));
    }
    last = net::NamingPeer(chunk.status(), holder);
  }
  co_return absl::UnavailableError(last.message());
}

Task<absl::Status> Swarm::FetchFrom(std::shared_ptr<Job> job, NodeId holder, store::ChunkId id) {
  wire::ChunkCall call{job->id, id};
  const auto was_silent = job->silence.find(holder);
  const absl::Duration silence =
      was_silent == job->silence.end() ? kFirstSilence : was_silent->second;
  absl::StatusOr<Buffer> data = co_await Ask(holder, call, silence);
  absl::Status got = data.status();
  if (absl::IsDeadlineExceeded(got)) job->silence[holder] = std::min(2 * silence, kChunkTimeout);
  if (data.ok()) {
    auto put = [store = store_, id, chunk = *data, owner = job->owner] {
      return store->PutExpected(id, chunk.span(), owner);
    };
    got = co_await RunOn(pool_, transport_.executor(), std::move(put));
    if (!got.ok() && got.code() != absl::StatusCode::kDataLoss) job->local = got;
  }
  if (got.code() == absl::StatusCode::kDataLoss && job->liars.insert(holder).second) {
    Log(LogLevel::kWarning, "bad_chunk",
        {{"job", ToString(job->id)}, {"node", holder.Short()}, {"why", got}});
  }
  co_return got;
}

// Nodes begin at different holders, so that they do not all pull from the first; who was silent
// comes last.
std::vector<NodeId> Swarm::InTurn(const Job& job, const store::ChunkId& id) const {
  std::vector<NodeId> turn;
  for (const NodeId& holder : job.holders) {
    if (holder != transport_.self() && !job.liars.contains(holder)) turn.push_back(holder);
  }
  if (turn.empty()) return turn;
  const size_t start = (id.bytes[0] + transport_.self().digest().bytes[0]) % turn.size();
  std::rotate(turn.begin(), turn.begin() + static_cast<int64_t>(start), turn.end());
  std::stable_partition(turn.begin(), turn.end(),
                        [&](const NodeId& holder) { return !job.silence.contains(holder); });
  return turn;
}

Task<absl::Status> Swarm::FetchOne(std::shared_ptr<Job> job, store::ChunkId id) {
  Executor& executor = transport_.executor();
  absl::Duration pause = kFirstPause;
  absl::Status last = absl::UnavailableError("nobody else is known to have it");
  while (true) {
    const std::vector<NodeId> turn = InTurn(*job, id);
    for (const NodeId& holder : turn) {
      absl::Status got = co_await FetchFrom(job, holder, id);
      if (got.ok()) {
        job->last_success = executor.clock().Monotonic();
        co_return got;
      }
      if (!job->local.ok()) co_return job->local;
      last = net::NamingPeer(got, holder);
    }
    if (executor.clock().Monotonic() - job->last_success > kPatience) {
      co_return absl::UnavailableError(absl::StrCat(
          "chunk ", id.Short(), " of job ", ToString(job->id), " is to be had from none of ",
          job->holders.size(), " nodes; last: ", last.message()));
    }
    co_await Sleep(executor, pause);
    pause = std::min(pause * 2, kLastPause);
  }
}

Task<absl::Status> Swarm::FetchSome(std::shared_ptr<Job> job) {
  while (job->next < job->wanted.size()) {
    const store::ChunkId id = job->wanted[job->next++];
    absl::Status fetched = co_await FetchOne(job, id);
    if (!fetched.ok()) {
      job->next = job->wanted.size();  // the others need not go on
      co_return fetched;
    }
    job->progress.bytes_done += job->sizes[id];
    if (job->on_progress) job->on_progress(job->progress);
    if (++job->received >= kChunksPerPin) GDF_CO_RETURN_IF_ERROR(co_await Pin(job));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Swarm::Pin(std::shared_ptr<Job> job) {
  job->received = 0;
  auto pin = [store = store_, job] { return store->Pin(job->owner, job->here); };
  co_return co_await RunOn(pool_, transport_.executor(), std::move(pin));
}

Task<absl::StatusOr<store::Manifest>> Swarm::Fetch(
    FetchRequest request, std::function<void(const FetchProgress&)> on_progress) {
  Executor& executor = transport_.executor();
  auto job = std::make_shared<Job>();
  job->id = request.job;
  job->owner = request.owner.empty() ? OwnerOf(request.job) : std::move(request.owner);
  job->holders = std::move(request.holders);
  job->on_progress = std::move(on_progress);
  job->last_success = executor.clock().Monotonic();
  std::vector<std::string> owners = {job->owner};
  for (const JobId& kin : request.kin) owners.push_back(OwnerOf(kin));
  const std::string own = OwnerOf(request.job) + "-";
  for (std::string& owner : store_->Owners()) {
    if (absl::StartsWith(owner, own)) owners.push_back(std::move(owner));
  }

  absl::StatusOr<Buffer> bytes = absl::NotFoundError("not here for this job");
  if (store_->Missing({request.manifest}, owners).empty()) bytes = co_await Load(request.manifest);
  if (!bytes.ok()) {
    GDF_CO_RETURN_IF_ERROR(co_await FetchOne(job, request.manifest));
    bytes = co_await Load(request.manifest);
  }
  GDF_CO_RETURN_IF_ERROR(bytes.status());
  GDF_CO_ASSIGN_OR_RETURN(store::Manifest manifest, store::Manifest::Decode(bytes->view()));

  std::vector<store::ChunkId> all = manifest.Chunks();
  all.push_back(request.manifest);
  for (const store::ManifestFile& file : manifest.files) {
    for (size_t i = 0; i < file.chunks.size(); ++i) job->sizes[file.chunks[i]] = file.ChunkSize(i);
  }
  // A pin is what lets the job's nodes have a chunk: it comes with the bytes, never before them.
  job->wanted = store_->Missing(all, owners);
  const std::set<store::ChunkId> missing(job->wanted.begin(), job->wanted.end());
  uint64_t missing_bytes = 0;
  for (const store::ChunkId& id : all) {
    if (missing.contains(id)) {
      missing_bytes += job->sizes[id];
    } else {
      job->here.push_back(id);
    }
  }
  GDF_CO_RETURN_IF_ERROR(co_await Pin(job));
  job->progress.bytes_total = manifest.TotalBytes();
  job->progress.bytes_done =
      job->progress.bytes_total - std::min(missing_bytes, job->progress.bytes_total);

  std::vector<Task<absl::Status>> fetchers;
  for (int i = 0; i < kParallel; ++i) fetchers.push_back(FetchSome(job));
  std::vector<absl::Status> results = co_await WhenAll(executor, std::move(fetchers));
  GDF_CO_RETURN_IF_ERROR(co_await Pin(job));
  for (const absl::Status& result : results) GDF_CO_RETURN_IF_ERROR(result);
  co_return manifest;
}

}  // namespace gdf::swarm
