#include "gdfd/daemon.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/net/port_mapping.h"
#include "core/net/tls_transport.h"
#include "core/trust/lock_file.h"
#include "gdfd/jobs/network_coordinator.h"
#include "gdfd/listen_ports.h"
#include "gdfd/machine.h"
#include "gdfd/node.h"
#include "gdfd/services/control_server.h"
#include "gdfd/services/ping.h"
#include "gdfd/state_folder.h"
#include "gdfd/supervisor/cgroup.h"
#include "gdfd/supervisor/gpu_inventory.h"
#include "gdfd/supervisor/worker_process.h"
#include "gdfd/version.h"

namespace gdf {
namespace {

// "[::]:7420" and "0.0.0.0:7420" say where to listen, not how to be reached: they become the machine's addresses.
std::vector<std::string> AdvertisedAddresses(const config::NodeConfig& config, const std::vector<std::string>& bound) {
  std::vector<std::string> out;
  for (const config::Endpoint& endpoint : config.advertise) out.push_back(config::ToString(endpoint));
  if (!out.empty()) return out;
  for (const std::string& address : bound) {
    absl::StatusOr<config::Endpoint> endpoint = config::ParseEndpoint(address);
    if (!endpoint.ok()) continue;
    if (endpoint->host != "::" && endpoint->host != "0.0.0.0") {
      out.push_back(address);
      continue;
    }
    for (const std::string& host : MachineAddresses()) {
      const bool v6 = host.find(':') != std::string::npos;
      if (v6 && endpoint->host == "0.0.0.0") continue;
      out.push_back(config::ToString(config::Endpoint{host, endpoint->port}));
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() > wire::kMaxAddresses) out.resize(wire::kMaxAddresses);
  return out;
}

}  // namespace

struct Daemon::Parts {
  explicit Parts(config::NodeConfig c)
      : config(std::move(c)), executor(clock), pool(std::max(1u, std::thread::hardware_concurrency())) {}

  absl::Status Open();
  absl::Status OpenNetwork();
  absl::StatusOr<std::unique_ptr<net::TlsTransport>> Listen(net::TlsTransportOptions options);
  void FindControlGroups();
  uint64_t TaskMemoryBytes() const;
  // Ends Run() with `why`. Only the first time counts: what goes down does so once. Any thread.
  void End(absl::Status why);
  wire::NodeProfile Profile() const;
  void ServeScheduling();
  void MapPort();
  void FindGpus();
  void OfferGpus();
  std::string WorkerProgram() const;
  void OnRefused(const absl::Status& why);
  Task<absl::StatusOr<std::unique_ptr<train::WorkerSession>>> StartWorker(jobs::WorkerRequest request);

  config::NodeConfig config;
  PosixFileSystem files;
  SystemClock clock;
  SystemRng rng;
  LoopExecutor executor;
  std::atomic<bool> stopped = false;  // from outside: counts more than a wish to begin anew
  std::atomic<bool> ending = false;
  absl::Status end;  // written by who set `ending`
  std::optional<trust::LockFile> lock;
  std::string cgroup_parent;  // of workers' control groups; empty: there are none here
  std::optional<trust::NodeKey> key;
  std::unique_ptr<state::State> state;
  std::shared_ptr<store::ChunkStore> chunks;
  ThreadPool pool;
  std::unique_ptr<net::TlsTransport> transport;
  std::unique_ptr<membership::Membership> membership;
  net::Registration pings;
  std::unique_ptr<swarm::Swarm> swarm;
  std::unique_ptr<jobs::Scheduler> scheduler;
  std::unique_ptr<jobs::JobHost> jobs;
  std::unique_ptr<Node> node;
  std::unique_ptr<net::PortMapper> port_mapper;
  std::unique_ptr<supervisor::GpuInventory> gpus;
  std::unique_ptr<services::ControlServer> control;
};

absl::Status Daemon::Parts::Open() {
  const std::string& dir = config.state_dir;
  GDF_RETURN_IF_ERROR(files.MakeFolders(dir, 0700));
  GDF_RETURN_IF_ERROR(CheckStateFolder(files, dir));
  GDF_ASSIGN_OR_RETURN(lock, trust::LockFile::Acquire(dir + "/gdfd.lock"));
  FindControlGroups();
  GDF_ASSIGN_OR_RETURN(NodeRecords records, OpenStateFolder(files, dir, rng));
  state = std::move(records.state);
  key = std::move(records.key);
  GDF_ASSIGN_OR_RETURN(
      chunks, store::ChunkStore::Open(files, {.folder = dir + "/chunks", .cap_bytes = config.limits.disk_cache_bytes}));
  return OpenNetwork();
}

void Daemon::Parts::FindControlGroups() {
  absl::StatusOr<std::string> parent = supervisor::DelegatedCgroup();
  if (parent.ok()) {
    cgroup_parent = *std::move(parent);
  } else {
    Log(LogLevel::kWarning, "no_control_groups", {{"why", parent.status()}});
  }
}

// What the network is told that tasks may have here, and what workers are held to.
uint64_t Daemon::Parts::TaskMemoryBytes() const {
  return config.limits.memory_bytes.value_or(DescribeMachine().memory_bytes / 10 * 8);
}

void Daemon::Parts::End(absl::Status why) {
  if (ending.exchange(true)) return;
  end = std::move(why);
  executor.Stop();
}

// GPUs are what the network knows of until they have been looked for: a start is no change.
wire::NodeProfile Daemon::Parts::Profile() const {
  wire::NodeProfile profile;
  const absl::StatusOr<state::Member> recorded = state->member(key->id());
  profile.name = config.name;
  if (profile.name.empty()) profile.name = recorded.ok() ? recorded->profile.name : HostName();  // joining may choose one
  if (recorded.ok()) profile.resources.gpus = recorded->profile.resources.gpus;
  profile.addresses = node->advertise;
  profile.version = kVersion;
  profile.relay = config.limits.relay_bytes_per_sec.has_value();
  const Machine machine = DescribeMachine();
  profile.resources.cpu_threads = static_cast<uint32_t>(
      config.limits.cpu_threads > 0 ? config.limits.cpu_threads : static_cast<int64_t>(machine.cpu_threads));
  profile.resources.memory_bytes = TaskMemoryBytes();
  profile.resources.disk_cap_bytes = config.limits.disk_cache_bytes;
  return profile;
}

// Where any free port will do, the last one is tried first.
absl::StatusOr<std::unique_ptr<net::TlsTransport>> Daemon::Parts::Listen(net::TlsTransportOptions options) {
  options.listen = WithLastPorts(files, config.state_dir, config.listen);
  std::vector<std::string> asked;
  for (const config::Endpoint& endpoint : config.listen) asked.push_back(config::ToString(endpoint));
  absl::StatusOr<std::unique_ptr<net::TlsTransport>> started =
      net::TlsTransport::Start(executor, key->private_seed(), options);
  if (absl::IsUnavailable(started.status()) && options.listen != asked) {
    Log(LogLevel::kWarning, "last_port_taken", {{"why", started.status()}});
    options.listen = asked;
    started = net::TlsTransport::Start(executor, key->private_seed(), options);
  }
  GDF_RETURN_IF_ERROR(started.status());
  if (absl::Status kept = KeepPorts(files, config.state_dir, (*started)->listen_addresses()); !kept.ok()) {
    Log(LogLevel::kWarning, "last_ports_not_kept", {{"why", kept}});
  }
  return started;
}

absl::Status Daemon::Parts::OpenNetwork() {
  net::TlsTransportOptions options;
  options.limits.upload_bytes_per_sec = config.limits.upload_bytes_per_sec.value_or(0);
  options.limits.download_bytes_per_sec = config.limits.download_bytes_per_sec.value_or(0);
  options.relay_bytes_per_sec = config.limits.relay_bytes_per_sec;
  options.congestion_control = config.congestion_control;
  options.clear_networks = config.clear_networks;
  GDF_ASSIGN_OR_RETURN(transport, Listen(std::move(options)));
  pings = services::ServePings(*transport);
  membership = std::make_unique<membership::Membership>(
      membership::Environment{executor, *transport, *state, *key, rng});
  swarm = std::make_unique<swarm::Swarm>(*transport, pool, chunks, [this](JobId id, NodeId peer) {
    absl::StatusOr<state::Job> job = state->job(id);
    return job.ok() && job->HasPart(peer);
  });
  jobs::JobWorld world{
      executor,
      pool,
      files,
      *transport,
      *state,
      *swarm,
      chunks,
      *key,
      [this](jobs::WorkerRequest request) { return StartWorker(std::move(request)); },
      config.state_dir + "/jobs",
      config.state_dir + "/paused",
      config.limits.cpu_threads,
      [this] { return gpus->Wait(); },
      jobs::InputBudget(config.limits.disk_cache_bytes),
      jobs::TaskSlots(config.limits.tasks),
      jobs::TaskSlots(config.limits.tasks)};
  jobs = std::make_unique<jobs::JobHost>(std::move(world), [this] {
    return std::make_unique<jobs::NetworkCoordinator>(*transport, *state, *membership, [this] { return scheduler.get(); });
  });
  const std::vector<std::string>& bound = transport->listen_addresses();
  node = std::make_unique<Node>(Node{
      executor, rng, files, config, *key, *state, *transport, *membership, chunks, *jobs,
      [this] { return membership->leading() ? scheduler.get() : nullptr; }, [this] { ServeScheduling(); },
      [this](const std::string& why) { End(absl::AbortedError(why)); },
      config.state_dir, bound, AdvertisedAddresses(config, bound), {}, {}, clock.Now()});
  membership->OnRole([this] { ServeScheduling(); });
  membership->OnRefused([this](const absl::Status& why) { OnRefused(why); });
  membership->Start(Profile());
  jobs::TellPauses(*jobs, *membership);
  FindGpus();
  MapPort();
  ServeScheduling();

  // Chunks of an upload whose submission was cut off belong to nobody, unless the job made it into the record.
  bool held_all = true;
  GDF_ASSIGN_OR_RETURN(std::vector<state::Job> listed, state->jobs());
  for (const state::Job& summary : listed) {
    if (summary.phase == state::JobPhase::kFinished) continue;
    GDF_ASSIGN_OR_RETURN(state::Job job, state->job(summary.id));
    if (absl::Status held = jobs->Hold(job); !held.ok()) {
      Log(LogLevel::kWarning, "input_not_held", {{"job", ToString(job.id)}, {"why", held}});
      held_all = held_all && !absl::IsResourceExhausted(held);  // a full disk: the upload's pin must do
    }
  }
  for (const std::string& owner : chunks->Owners()) {
    if (held_all && owner.rfind("upload", 0) == 0) GDF_RETURN_IF_ERROR(chunks->Drop(owner));
  }
  jobs->Start();
  return absl::OkStatus();
}

void Daemon::Parts::OnRefused(const absl::Status& why) {
  const absl::StatusOr<bool> taken = TakeUnheardKey(files, config.state_dir);
  if (!taken.ok()) Log(LogLevel::kError, "next_key_unusable", {{"why", taken.status()}});
  if (taken.ok() && *taken) node->restart(absl::StrCat("taking the next key: ", why.message()));
}

// Where the owner says how this node is reached, or it listens inside the machine only, no router is asked.
void Daemon::Parts::MapPort() {
  if (!config.port_mapping || !config.advertise.empty()) return;
  for (const std::string& address : node->listen) {
    absl::StatusOr<config::Endpoint> bound = config::ParseEndpoint(address);
    if (!bound.ok() || !IsReachedThroughRouter(bound->host)) continue;
    port_mapper = std::make_unique<net::PortMapper>(
        executor, bound->port, [this, own = node->advertise](const absl::StatusOr<std::string>& external) {
          Log(LogLevel::kInfo, "port_mapping", {{"external", external.ok() ? *external : "none"}, {"why", external.status()}});
          node->advertise = own;
          if (external.ok()) node->advertise.insert(node->advertise.begin(), *external);
          membership->SetAddresses(node->advertise);
        });
    return;
  }
}

void Daemon::Parts::FindGpus() {
  std::optional<std::string> program;
  const bool look = config.limits.gpus == config::GpuUse::kAlways ||
                    (config.limits.gpus == config::GpuUse::kAuto && supervisor::MayHaveGpu());
  if (look) program = WorkerProgram();
  gpus = std::make_unique<supervisor::GpuInventory>(executor, std::move(program), [this] {
    node->gpu_problem = gpus->problem();
    OfferGpus();
  });
  if (!look) OfferGpus();
}

void Daemon::Parts::OfferGpus() {
  wire::NodeResources resources = membership->profile().resources;
  resources.gpus.clear();
  for (const train::GpuDevice& gpu : gpus->devices()) resources.gpus.push_back({gpu.name, gpu.memory_bytes});
  membership->SetResources(std::move(resources));
}

void Daemon::Parts::ServeScheduling() {
  if (scheduler) {
    scheduler->Wake();
  } else if (membership->coordinator()) {
    scheduler = std::make_unique<jobs::Scheduler>(*transport, *state, *membership);
  }
}

std::string Daemon::Parts::WorkerProgram() const {
  return config.worker.empty() ? supervisor::FindWorkerProgram() : config.worker;
}

Task<absl::StatusOr<std::unique_ptr<train::WorkerSession>>> Daemon::Parts::StartWorker(jobs::WorkerRequest request) {
  supervisor::WorkerOptions options;
  options.program = WorkerProgram();
  options.label = request.what;
  for (const train::GpuDevice& gpu : request.gpus) options.gpus.push_back(gpu.index);
  // How much of what CUDA reserves counts against RLIMIT_DATA is not measured: without a control group a worker with a
  // GPU is held to a limit that the owner states only.
  const bool stated_only = !request.gpus.empty() && cgroup_parent.empty();
  options.memory_bytes = stated_only ? config.limits.memory_bytes.value_or(0) : TaskMemoryBytes();
  options.cgroup_parent = cgroup_parent;
  GDF_CO_ASSIGN_OR_RETURN(std::unique_ptr<supervisor::WorkerProcess> worker,
                          supervisor::WorkerProcess::Start(executor, std::move(options)));
  GDF_CO_ASSIGN_OR_RETURN(supervisor::SandboxReport report, co_await worker->Ready());
  node->sandbox = report.in_force;
  node->warnings.clear();
  for (const std::string& missing : report.missing) {
    node->warnings.push_back("the worker's sandbox lacks: " + missing);
  }
  co_return std::unique_ptr<train::WorkerSession>(std::move(worker));
}

Daemon::Daemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(config::NodeConfig config) {
  auto parts = std::make_unique<Parts>(std::move(config));
  GDF_RETURN_IF_ERROR(parts->Open());
  GDF_ASSIGN_OR_RETURN(parts->control, services::ControlServer::Start(*parts->node));
  return std::unique_ptr<Daemon>(new Daemon(std::move(parts)));
}

Daemon::~Daemon() = default;

absl::Status Daemon::Run(const std::function<void()>& on_ready) {
  const std::string advertise = parts_->node->advertise.empty() ? "nothing" : parts_->node->advertise[0];
  Log(LogLevel::kInfo, "ready",
      {{"node", parts_->key->id().Short()}, {"version", kVersion}, {"advertise", advertise},
       {"control", parts_->config.control_socket}});
  parts_->executor.Post([&on_ready] { on_ready(); });
  parts_->executor.Run();
  // Calls in progress need the executor until they have been told that it is over.
  std::thread closing([this] {
    parts_->control->Shutdown();
    parts_->executor.Stop();
  });
  parts_->executor.Run();
  closing.join();
  const absl::Status end = parts_->stopped ? absl::OkStatus() : parts_->end;
  Log(LogLevel::kInfo, "stopped", {{"why", end}});
  return end;
}

void Daemon::Stop() {
  parts_->stopped = true;
  parts_->End(absl::OkStatus());
}

}  // namespace gdf
