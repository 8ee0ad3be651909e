// A node with everything but processes: real transport, state, stores and control API, simulated
// workers.
#ifndef GDF_TESTS_UNIT_SERVICES_SERVICE_NODE_H_
#define GDF_TESTS_UNIT_SERVICES_SERVICE_NODE_H_

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "core/control/client.h"
#include "gdfd/jobs/network_coordinator.h"
#include "gdfd/node.h"
#include "gdfd/services/control_server.h"
#include "gdfd/services/ping.h"
#include "tests/sim/sim_worker.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_network.h"

namespace gdf::services {

using testing::LoopThread;
using testing::Says;
using testing::TestMember;

// A worker that also has a language: it says "abc" until it is told to stop, or destroyed.
class TalkingWorker final : public sim::SimWorker {
 public:
  TalkingWorker(Executor& executor, sim::SimWorkerOptions options, sim::EmitJournal* journal,
                int* alive)
      : SimWorker(executor, options, journal, nullptr), executor_(executor), alive_(alive) {
    ++*alive_;
  }
  ~TalkingWorker() override { --*alive_; }
  Task<absl::StatusOr<train::GenerateResult>> Generate(train::GenerateRequest request) override {
    train::GenerateResult result;
    for (; result.tokens < request.max_tokens; ++result.tokens) {
      co_await Sleep(executor_, absl::Milliseconds(1));
      request.on_text("abc");
    }
    co_return result;
  }

 private:
  Executor& executor_;
  int* const alive_;
};

class ServiceNode {
 public:
  explicit ServiceNode(LoopThread& loop, int number, config::NodeConfig config = {})
      : loop_(loop), config_(std::move(config)), member_(loop, number) {
    REQUIRE(chmod(folder_.path().c_str(), 0755) == 0);  // other users may come to the socket
    config_.state_dir = folder_.path();
    config_.control_socket = folder_.path() + "/control.sock";
    loop_.On([this] { Open(); });
    Serve();
  }
  ~ServiceNode() {
    StopServing();
    loop_.On([this] {
      node_.reset();
      pings_.Reset();
      host_.reset();
      scheduler_.reset();
      swarm_.reset();
    });
  }

  // Listens (again) as config() says.
  void Serve() {
    absl::StatusOr<std::unique_ptr<ControlServer>> control = ControlServer::Start(*node_);
    INFO(control.status());
    REQUIRE(control.ok());
    control_ = *std::move(control);
  }
  void StopServing() {
    if (!control_) return;
    control_->Shutdown();
    loop_.On([this] { control_.reset(); });
  }

  TestMember& member() { return member_; }
  Node& node() { return *node_; }
  ControlServer& control() { return *control_; }
  config::NodeConfig& config() { return config_; }
  store::ChunkStore& chunks() { return *chunks_; }
  jobs::JobHost& host() { return *host_; }
  const std::string& folder() const { return folder_.path(); }
  const std::string& socket() const { return config_.control_socket; }
  std::unique_ptr<control::Client> Client() {
    return *control::Client::Connect({.socket = socket()});
  }
  // Why it was asked to, on the loop, where it is written.
  std::string restarted() { return loop_.On([this] { return restarted_; }); }
  int workers_alive = 0;

 private:
  void Open() {
    chunks_ = *store::ChunkStore::Open(files_, {.folder = folder_.path() + "/chunks",
                                                .cap_bytes = config_.limits.disk_cache_bytes});
    swarm_ = std::make_unique<swarm::Swarm>(member_.transport(), pool_, chunks_,
                                            [](JobId, NodeId) { return true; });
    jobs::JobWorld world{loop_.executor(),
                         pool_,
                         files_,
                         member_.transport(),
                         member_.state(),
                         *swarm_,
                         chunks_,
                         member_.key(),
                         [this](jobs::WorkerRequest) { return StartWorker(this); },
                         folder_.path() + "/jobs",
                         folder_.path() + "/paused"};
    host_ = std::make_unique<jobs::JobHost>(std::move(world), [this] {
      return std::make_unique<jobs::NetworkCoordinator>(member_.transport(), member_.state(),
                                                        member_.membership(),
                                                        [this] { return scheduler_.get(); });
    });
    host_->Start();
    jobs::TellPauses(*host_, member_.membership());
    pings_ = ServePings(member_.transport());
    node_ = std::make_unique<Node>(Node{loop_.executor(),
                                        rng_,
                                        files_,
                                        config_,
                                        member_.key(),
                                        member_.state(),
                                        member_.transport(),
                                        member_.membership(),
                                        chunks_,
                                        *host_,
                                        [this] { return scheduler_.get(); },
                                        [this] {
                                          scheduler_ = std::make_unique<jobs::Scheduler>(
                                              member_.transport(), member_.state(),
                                              member_.membership());
                                        },
                                        [this](const std::string& why) { restarted_ = why; },
                                        folder_.path(),
                                        member_.transport().listen_addresses(),
                                        member_.transport().listen_addresses(),
                                        {},
                                        {},
                                        loop_.executor().clock().Now()});
  }
  static Task<absl::StatusOr<std::unique_ptr<train::WorkerSession>>> StartWorker(
      ServiceNode* self) {
    sim::SimWorkerOptions options;
    options.num_params = 100;
    options.node = self->member_.id();
    options.step_time = absl::Milliseconds(1);
    co_return std::unique_ptr<train::WorkerSession>(std::make_unique<TalkingWorker>(
        self->loop_.executor(), options, &self->journal_, &self->workers_alive));
  }

  LoopThread& loop_;
  testing::TemporaryFolder folder_;
  config::NodeConfig config_;
  PosixFileSystem files_;
  SystemRng rng_;
  ThreadPool pool_{2};
  sim::EmitJournal journal_;
  TestMember member_;
  std::shared_ptr<store::ChunkStore> chunks_;
  std::unique_ptr<swarm::Swarm> swarm_;
  std::unique_ptr<jobs::Scheduler> scheduler_;
  std::unique_ptr<jobs::JobHost> host_;
  net::Registration pings_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ControlServer> control_;
  std::string restarted_;
};

}  // namespace gdf::services

#endif  // GDF_TESTS_UNIT_SERVICES_SERVICE_NODE_H_
