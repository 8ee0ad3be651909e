// Nodes of a network on loopback: real transports and memberships on one executor, which runs on a
// thread of its own.
#ifndef GDF_TESTS_SUPPORT_TEST_NETWORK_H_
#define GDF_TESTS_SUPPORT_TEST_NETWORK_H_

#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/base/task.h"
#include "core/membership/membership.h"
#include "core/net/tls_transport.h"
#include "core/state/state.h"
#include "core/trust/node_key.h"

namespace gdf::testing {

inline constexpr absl::Duration kSoon = absl::Seconds(20);  // a deadline, not an expectation

class LoopThread {
 public:
  LoopThread() {
    thread_.Submit([this] { loop_.Run(); });
  }
  ~LoopThread() {
    On([this] { scope_.reset(); });
    loop_.Stop();
  }
  Executor& executor() { return loop_; }

  // Runs `fn` on the executor and waits for its result.
  template <typename Fn, typename R = std::invoke_result_t<Fn>>
  R On(Fn fn) {
    std::promise<R> result;
    std::future<R> future = result.get_future();
    loop_.Post([&] {
      if constexpr (std::is_void_v<R>) {
        fn();
        result.set_value();
      } else {
        result.set_value(fn());
      }
    });
    return future.get();
  }
  // Runs the task that `make` returns and waits for its result.
  template <typename T>
  T Await(std::function<Task<T>()> make) {
    auto result = std::make_shared<std::promise<T>>();
    std::future<T> future = result->get_future();
    On([&] { scope_->Spawn(Into(make(), result)); });
    REQUIRE(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return future.get();
  }
  // Whether `condition`, asked on the executor, comes to hold within `limit`.
  bool Comes(std::function<bool()> condition, absl::Duration limit = kSoon) {
    return Await<bool>([&] { return Poll(this, condition, limit); });
  }
  absl::Duration Now() const { return clock_.Monotonic(); }

 private:
  template <typename T>
  static Task<void> Into(Task<T> task, std::shared_ptr<std::promise<T>> result) {
    T value = co_await std::move(task);
    result->set_value(std::move(value));
  }
  static Task<bool> Poll(LoopThread* self, std::function<bool()> condition, absl::Duration limit) {
    const absl::Duration end = self->clock_.Monotonic() + limit;
    while (!condition()) {
      if (self->clock_.Monotonic() > end) co_return false;
      co_await Sleep(self->loop_, absl::Milliseconds(2));
    }
    co_return true;
  }

  SystemClock clock_;
  LoopExecutor loop_{clock_};
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>(loop_);
  ThreadPool thread_{1};
};

// One node: key, state, transport and membership. Made and used from the test's thread, it lives on
// the executor.
class TestMember {
 public:
  struct Options {
    int number = 1;               // decides its key
    std::string name = {};        // "n<number>" when empty
    std::string state_path = {};  // in memory when empty
    std::string listen = "127.0.0.1:0";
    std::vector<std::string> advertise = {};  // what it listens on when empty
    uint32_t cpu_threads = 2;
  };

  TestMember(LoopThread& loop, Options options)
      : loop_(loop), options_(std::move(options)), key_(KeyOf(options_.number)), rng_(NextSeed()) {
    if (options_.name.empty()) options_.name = "n" + std::to_string(options_.number);
    loop_.On([this] { Open(); });
  }
  TestMember(LoopThread& loop, int number) : TestMember(loop, Options{.number = number}) {}
  ~TestMember() {
    loop_.On([this] { Close(); });
  }

  static trust::NodeKey KeyOf(int number) {
    trust::NodeKey::Seed seed{};
    seed[0] = static_cast<uint8_t>(number);
    return trust::NodeKey::FromSeed(seed);
  }

  NodeId id() const { return key_.id(); }
  const trust::NodeKey& key() const { return key_; }
  const std::string& address() const { return transport_->listen_addresses().at(0); }
  Options& options() { return options_; }  // take effect at the next Restart
  // Of the executor:
  state::State& state() { return *state_; }
  net::TlsTransport& transport() { return *transport_; }
  membership::Membership& membership() { return *membership_; }
  Rng& rng() { return rng_; }
  wire::NodeProfile Profile() const {
    wire::NodeProfile profile;
    profile.name = options_.name;
    profile.addresses = options_.advertise;
    if (profile.addresses.empty()) profile.addresses = {address()};
    profile.resources.cpu_threads = options_.cpu_threads;
    profile.resources.memory_bytes = uint64_t{8} << 30;
    profile.version = "0.1.0";
    return profile;
  }

  void Found(const std::string& name = "my-net") {
    const absl::StatusOr<NetworkId> id = loop_.On([&] { return membership_->Found(name); });
    INFO(id.status());
    REQUIRE(id.ok());
  }
  // An invite of this node, which is a coordinator, as its administrator would hand it on.
  trust::Invite MakeInvite(trust::RoleSet roles, uint32_t uses = 1,
                           absl::Duration ttl = absl::Hours(1)) {
    trust::Invite invite;
    const absl::Status made =
        loop_.Await<absl::Status>([&] { return Issue(this, roles, uses, ttl, &invite); });
    INFO(made);
    REQUIRE(made.ok());
    return invite;
  }
  absl::Status Join(const trust::Invite& invite, const std::string& name = "") {
    return loop_.Await<absl::Status>([&] { return membership_->Join(invite, name); });
  }
  void JoinAs(TestMember& coordinator, trust::RoleSet roles) {
    const absl::Status joined = Join(coordinator.MakeInvite(roles));
    INFO(joined);
    REQUIRE(joined.ok());
  }
  // The network's verdict, or why it could not be asked.
  absl::StatusOr<wire::CommandResult> Propose(wire::CommandBody body) {
    return loop_.Await<absl::StatusOr<wire::CommandResult>>(
        [&] { return membership_->ProposeChecked(std::move(body)); });
  }
  absl::Status Do(wire::CommandBody body) { return Propose(std::move(body)).status(); }
  uint64_t applied() {
    return loop_.On([this] { return state_->last_applied(); });
  }
  bool Follows(TestMember& other) {
    return loop_.Comes([&] { return state_->last_applied() == other.state_->last_applied(); });
  }
  // It comes to have as many commands as the other, which may go on having more, and the same state with them.
  bool HasStateOf(TestMember& other) {
    bool same = false;
    return loop_.Comes([&] {
      if (state_->last_applied() != other.state_->last_applied()) return false;
      same = *state_->StateDigest() == *other.state_->StateDigest();
      return true;
    }) && same;
  }

  // As a process that is started again with the same state file and address.
  void Restart() {
    options_.listen = address();
    loop_.On([this] {
      Close();
      Open();
    });
  }

 private:
  // Nodes of one key that follow each other must not choose the same request ids.
  static uint64_t NextSeed() {
    static uint64_t seed = 0;
    return ++seed;
  }
  void Open() {
    auto state = options_.state_path.empty() ? state::State::OpenInMemory()
                                             : state::State::Open(options_.state_path);
    REQUIRE(state.ok());
    state_ = *std::move(state);
    net::TlsTransportOptions net_options;
    net_options.listen = {options_.listen};
    auto transport = net::TlsTransport::Start(loop_.executor(), key_.private_seed(), net_options);
    INFO(transport.status());
    REQUIRE(transport.ok());
    transport_ = *std::move(transport);
    membership_ = std::make_unique<membership::Membership>(
        membership::Environment{loop_.executor(), *transport_, *state_, key_, rng_});
    membership_->Start(Profile());
  }
  void Close() {
    membership_.reset();
    transport_.reset();
    state_.reset();
  }
  static Task<absl::Status> Issue(TestMember* self, trust::RoleSet roles, uint32_t uses,
                                  absl::Duration ttl, trust::Invite* invite) {
    absl::StatusOr<state::Network> network = self->state_->network();
    if (!network.ok()) co_return network.status();
    invite->Randomize(self->rng_);
    invite->network = network->id;
    invite->roles = roles;
    invite->expires_unix_ms = absl::ToUnixMillis(self->loop_.executor().clock().Now() + ttl);
    invite->coordinators = {{self->id(), {self->address()}}};
    wire::CreateInvite command{invite->id, trust::InviteSecretHash(invite->id, invite->secret),
                               roles.bits(), invite->expires_unix_ms, uses};
    absl::StatusOr<wire::CommandResult> made = co_await self->membership_->ProposeChecked(command);
    co_return made.status();
  }

  LoopThread& loop_;
  Options options_;
  const trust::NodeKey key_;
  SeededRng rng_;
  std::unique_ptr<state::State> state_;
  std::unique_ptr<net::TlsTransport> transport_;
  std::unique_ptr<membership::Membership> membership_;
};

// Whether `status` has this code and a message that has `text`.
inline bool Says(const absl::Status& status, absl::StatusCode code, std::string_view text) {
  UNSCOPED_INFO(status);
  return status.code() == code && std::string(status.message()).find(text) != std::string::npos;
}

}  // namespace gdf::testing

#endif  // GDF_TESTS_SUPPORT_TEST_NETWORK_H_
