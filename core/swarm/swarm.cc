#include "core/swarm/swarm.h"

#include <algorithm>
#include <map>

#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/wire/membership_messages.h"

namespace gdf::swarm {
namespace {

// Chunks asked for at the same time by one fetch: fills a link of 100 ms and 300 Mbit/s, 4 MiB of memory.
constexpr int kParallel = 4;
constexpr absl::Duration kChunkTimeout = absl::Seconds(60);  // 1 MiB in it: 140 kbit/s
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLastPause = absl::Seconds(5);

}  // namespace

std::string OwnerOf(JobId job) { return ToString(job); }

// One Fetch in progress.
struct Swarm::Job {
  JobId id;
  std::vector<NodeId> holders;
  std::vector<store::ChunkId> wanted;
  size_t next = 0;  // of wanted
  std::map<store::ChunkId, uint64_t> sizes;
  FetchProgress progress;
  std::function<void(const FetchProgress&)> on_progress;
  absl::Duration last_success;
};

Swarm::Swarm(net::Transport& transport, ComputePool& pool, std::shared_ptr<store::ChunkStore> store,
             Authorise authorise)
    : transport_(transport), pool_(pool), store_(std::move(store)), authorise_(std::move(authorise)) {
  registration_ = transport_.HandleCall(
      "swarm.chunk", [this](NodeId peer, Buffer request) { return Serve(peer, std::move(request)); });
}

Task<absl::StatusOr<Buffer>> Swarm::Load(store::ChunkId id) {
  auto load = [store = store_, id] { return store->Get(id); };
  co_return co_await RunOn(pool_, transport_.executor(), std::move(load));
}

Task<absl::StatusOr<Buffer>> Swarm::Serve(NodeId peer, Buffer request) {
  GDF_CO_ASSIGN_OR_RETURN(wire::ChunkCall call, wire::DecodeChunkCall(request.view()));
  if (!authorise_(call.job, peer)) {
    co_return absl::PermissionDeniedError(absl::StrCat("you are no node of job ", ToString(call.job)));
  }
  if (!store_->PinnedBy(OwnerOf(call.job), call.id)) {
    co_return absl::NotFoundError(absl::StrCat("chunk ", call.id.Short(), " does not belong to job ", ToString(call.job)));
  }
  co_return co_await Load(call.id);
}

Task<absl::Status> Swarm::FetchOne(std::shared_ptr<Job> job, store::ChunkId id) {
  Executor& executor = transport_.executor();
  const Buffer request(wire::Encode(wire::ChunkCall{job->id, id}));
  // Nodes begin at different holders, so that they do not all pull from the first.
  const size_t start = (id.bytes[0] + transport_.self().digest().bytes[0]) % std::max<size_t>(1, job->holders.size());
  absl::Duration pause = kFirstPause;
  absl::Status last = absl::UnavailableError("nobody else is known to have it");
  while (true) {
    for (size_t i = 0; i < job->holders.size(); ++i) {
      const NodeId holder = job->holders[(start + i) % job->holders.size()];
      if (holder == transport_.self()) continue;
      absl::StatusOr<Buffer> data =
          co_await transport_.Call(holder, "swarm.chunk", request, kChunkTimeout, net::Priority::kBulk);
      if (!data.ok()) {
        last = Annotate(data.status(), absl::StrCat("node ", holder.Short()));
        continue;
      }
      const Buffer chunk = *data;
      const std::string owner = OwnerOf(job->id);
      auto put = [store = store_, id, chunk, owner] { return store->PutExpected(id, chunk.span(), owner); };
      absl::Status stored = co_await RunOn(pool_, executor, std::move(put));
      if (stored.ok()) {
        job->last_success = executor.clock().Monotonic();
        co_return absl::OkStatus();
      }
      if (stored.code() == absl::StatusCode::kResourceExhausted) co_return stored;
      last = Annotate(stored, absl::StrCat("node ", holder.Short()));
      Log(LogLevel::kWarning, "bad_chunk", {{"job", ToString(job->id)}, {"node", holder.Short()}, {"why", stored}});
    }
    if (executor.clock().Monotonic() - job->last_success > kPatience) {
      co_return absl::UnavailableError(absl::StrCat("chunk ", id.Short(), " of job ", ToString(job->id),
                                                    " is to be had from none of ", job->holders.size(),
                                                    " nodes; last: ", last.message()));
    }
    co_await Sleep(executor, pause);
    pause = std::min(pause * 2, kLastPause);
  }
}

Task<absl::Status> Swarm::FetchSome(std::shared_ptr<Job> job) {
  while (job->next < job->wanted.size()) {
    const store::ChunkId id = job->wanted[job->next++];
    GDF_CO_RETURN_IF_ERROR(co_await FetchOne(job, id));
    job->progress.bytes_done += job->sizes[id];
    if (job->on_progress) job->on_progress(job->progress);
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<store::Manifest>> Swarm::Fetch(JobId job_id, Digest manifest_id, std::vector<NodeId> holders,
                                                   std::function<void(const FetchProgress&)> on_progress) {
  Executor& executor = transport_.executor();
  auto job = std::make_shared<Job>();
  job->id = job_id;
  job->holders = std::move(holders);
  job->on_progress = std::move(on_progress);
  job->last_success = executor.clock().Monotonic();

  absl::StatusOr<Buffer> bytes = co_await Load(manifest_id);
  if (!bytes.ok()) {
    GDF_CO_RETURN_IF_ERROR(co_await FetchOne(job, manifest_id));
    bytes = co_await Load(manifest_id);
  }
  GDF_CO_RETURN_IF_ERROR(bytes.status());
  GDF_CO_ASSIGN_OR_RETURN(store::Manifest manifest, store::Manifest::Decode(bytes->view()));

  std::vector<store::ChunkId> all = manifest.Chunks();
  all.push_back(manifest_id);
  for (const store::ManifestFile& file : manifest.files) {
    for (size_t i = 0; i < file.chunks.size(); ++i) job->sizes[file.chunks[i]] = file.ChunkSize(i);
  }
  // Pinned before they are here: nothing may evict the first while the last arrives.
  const std::string owner = OwnerOf(job_id);
  auto pin = [store = store_, owner, all] { return store->Pin(owner, all); };
  absl::Status pinned = co_await RunOn(pool_, executor, std::move(pin));
  GDF_CO_RETURN_IF_ERROR(pinned);
  job->wanted = store_->Missing(all);
  job->progress.bytes_total = manifest.TotalBytes();
  uint64_t missing = 0;
  for (const store::ChunkId& id : job->wanted) missing += job->sizes[id];
  job->progress.bytes_done = job->progress.bytes_total - std::min(missing, job->progress.bytes_total);

  std::vector<Task<absl::Status>> fetchers;
  for (int i = 0; i < kParallel; ++i) fetchers.push_back(FetchSome(job));
  std::vector<absl::Status> results = co_await WhenAll(executor, std::move(fetchers));
  for (const absl::Status& result : results) GDF_CO_RETURN_IF_ERROR(result);
  co_return manifest;
}

}  // namespace gdf::swarm
