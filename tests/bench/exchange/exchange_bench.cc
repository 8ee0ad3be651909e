// All-reduce of one float32 tensor between N nodes, each a process of its own with a real transport, on loopback or over
// links of a given rate, delay and loss: from the tensor of every node to the mean at every node, encoding included.
// Prints one JSON line.
//
//   exchange_bench [--ranks N] [--mib M] [--codec C] [--deal-shares | --sites S] [--runs R] [--warmup W] [--idle-s S]
//                  [--rate-mbit R [--first-mbit F] [--rtt-ms T] [--loss SHARE]] [--congestion-control NAME]
//
// --codec auto: before each run one of the codecs that a job chooses among, and with --deal-shares the shares, as a job's
// lead does, from what the ranks tell of the runs before; the first run has int8.
// limit: by shaped links, RTT + 2 (N - 1) / N * bytes / (0.956 * rate) for float32, of which 0.956 is what TCP, IP and
// Ethernet leave of packets of 1500 bytes.
// --sites: the ranks are at so many sites, in order and as evenly as they are whole, and exchange by them.
// bytes_between_sites: that the kernel sent of one run, from ranks to those at other sites; with --sites 2 --one-level the
// same sites, but everybody sends to everybody.
// seconds: of the slowest rank, from a barrier to its mean. max_error: of the mean at rank 0 against the mean in
// float64, over the largest magnitude of that.
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/compute_pool.h"
#include "core/base/hash.h"
#include "core/compress/codec.h"
#include "core/exchange/exchange.h"
#include "core/net/tls_transport.h"
#include "core/schedule/exchange_tuner.h"
#include "core/tensor/flat_buffer.h"
#include "tests/support/shaped_links.h"

namespace gdf::exchange {
namespace {

struct Plan {
  int ranks = 2;
  double mib = 64;
  std::string codec = "fp32";
  int runs = 20;
  int warmup = 3;
  double idle_s = 0;    // before each measured run
  bool deal_shares = false;
  int sites = 1;
  bool one_level = false;
  double rate_mbit = 0; // 0: loopback
  double first_mbit = 0;  // of rank 0; 0: as the others
  double rtt_ms = 0;
  double loss = 0;
  std::string congestion_control;
  bool clear = false;
  bool chooses() const { return codec == "auto"; }
  uint32_t site(int rank) const { return static_cast<uint32_t>(rank * sites / ranks); }
  uint64_t num_values() const { return static_cast<uint64_t>(mib * (1 << 20) / sizeof(float)); }
};

// One end of a pipe pair between the referee and a rank: values of trivially copyable types.
struct Wire {
  int in = -1, out = -1;
  template <typename T>
  void Put(const T& value) const {
    GDF_CHECK(write(out, &value, sizeof(T)) == static_cast<ssize_t>(sizeof(T)));
  }
  template <typename T>
  T Get() const {
    T value;
    for (size_t got = 0; got < sizeof(T);) {
      const ssize_t n = read(in, reinterpret_cast<char*>(&value) + got, sizeof(T) - got);
      if (n <= 0) std::exit(1);  // the other side has gone
      got += static_cast<size_t>(n);
    }
    return value;
  }
};

struct Address {
  std::array<uint8_t, 32> node;
  std::array<char, 64> text;
};

// How a run is to be done, and what it was like.
struct Order {
  std::array<char, 32> codec;
  std::array<uint32_t, 16> shares;  // all 0: equal
};
struct Told {
  double seconds = 0;
  double packing_sec = 0;
  double up = 0, down = 0, rtt_sec = 0, values_per_sec = 0;
};

struct Result {
  double cpu_seconds = 0;
  uint64_t peak_bytes = 0;      // resident, above what it was before the first run
  uint64_t bytes_sent = 0;      // of all runs, as the kernel counted them
  uint64_t bytes_between = 0;   // of those, to ranks at other sites
  double max_error = 0;
  Digest digest;
};

// Standard normal enough: the sum of four uniform values, the same at any rank for the same (rank, i).
float ValueOf(int rank, uint64_t i) {
  uint64_t x = (static_cast<uint64_t>(rank) << 48) ^ i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;  // splitmix64's mixing
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  float sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<float>((x >> (16 * part)) & 0xFFFF) * 0x1p-16f - 0.5f;
  return sum;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) << 10;
}

Task<void> Reduce(Exchange* exchange, AllReduceRequest request, std::promise<Outcome>* done) {
  Outcome outcome = co_await exchange->AllReduce(std::move(request));
  done->set_value(std::move(outcome));
}

// A rank's whole life.
class Rank {
 public:
  Rank(const Plan& plan, int rank, const Wire& referee)
      : plan_(plan), rank_(rank), referee_(referee), pool_(1), loop_thread_(1), loop_(clock_),
        tensor_(*tensor::FlatBuffer::Zeros(plan.num_values())),
        packed_(std::make_shared<std::vector<uint8_t>>()) {
    for (uint64_t i = 0; i < tensor_.size(); ++i) tensor_.data()[i] = ValueOf(rank, i);
  }

  int Run() {
    std::array<uint8_t, 32> seed{};
    seed[0] = static_cast<uint8_t>(rank_ + 1);
    net::TlsTransportOptions options;
    options.listen = {(plan_.rate_mbit > 0 ? testing::ShapedLinks::Address(rank_) : "127.0.0.1") + ":0"};
    options.congestion_control = plan_.congestion_control;
    if (plan_.clear) options.clear_networks = {"0.0.0.0/0"};
    auto transport = net::TlsTransport::Start(loop_, seed, std::move(options));
    GDF_CHECK(transport.ok());
    transport_ = *std::move(transport);
    transport_->SetAdmission([](NodeId) { return net::Admission::kMember; });
    loop_thread_.Submit([this] { loop_.Run(); });
    Address self{transport_->self().digest().bytes, {}};
    const std::string listens = transport_->listen_addresses()[0];
    listens.copy(self.text.data(), self.text.size() - 1);
    referee_.Put(self);
    for (int i = 0; i < plan_.ranks; ++i) {
      const Address other = referee_.Get<Address>();
      members_.push_back({NodeId(Digest{other.node}), 1});
      if (i != rank_) On([&] { transport_->SetAddresses(members_.back().node, {other.text.data()}); });
    }
    On([this] {
      exchange_ = std::make_unique<Exchange>(Exchange::Context{loop_, pool_, *transport_, JobId{1}});
      tasks_ = std::make_unique<TaskScope>(loop_);
    });
    uint64_t before = 0, sent_before = 0, between_before = 0;
    double cpu_before = 0;
    Result result;
    for (int run = 0; run < plan_.warmup + plan_.runs; ++run) {
      if (run == plan_.warmup) {
        cpu_before = CpuSeconds();
        On([&] {
          sent_before = transport_->total_counters().bytes_sent;
          between_before = SentBetweenSites();
        });
      }
      referee_.Put('r');
      const Order order = referee_.Get<Order>();
      codec_ = *compress::Codec::Create(*compress::CodecSpec::Parse(order.codec.data()));
      if (!codec_->is_verbatim()) packed_->resize(codec_->PackedSize(tensor_.size()));
      if (run == 0) before = PeakBytes();
      referee_.Put('p');
      referee_.Get<char>();
      const absl::Duration start = clock_.Monotonic();
      Told told;
      const Outcome outcome = Once(static_cast<uint32_t>(run), order, &told);
      told.seconds = absl::ToDoubleSeconds(clock_.Monotonic() - start);
      referee_.Put(told);
      if (!outcome.status.ok()) {
        std::fprintf(stderr, "rank %d: %s\n", rank_, outcome.status.ToString().c_str());
        return 1;
      }
      if (run + 1 < plan_.warmup + plan_.runs) continue;
      result.cpu_seconds = CpuSeconds() - cpu_before;
      result.peak_bytes = PeakBytes() - before;
      On([&] {
        result.bytes_sent = transport_->total_counters().bytes_sent - sent_before;
        result.bytes_between = SentBetweenSites() - between_before;
      });
      result.digest = HashBytes(tensor::AsBytes(mean_.span()));
      if (rank_ == 0) result.max_error = MaxError(mean_.span());
    }
    referee_.Put(result);
    referee_.Get<char>();  // everybody is done
    On([this] {
      tasks_.reset();
      exchange_.reset();
      transport_.reset();
    });
    loop_.Stop();
    return 0;
  }

 private:
  uint64_t SentBetweenSites() {
    uint64_t bytes = 0;
    for (int i = 0; i < plan_.ranks; ++i) {
      if (plan_.site(i) != plan_.site(rank_)) bytes += transport_->counters(members_[static_cast<size_t>(i)].node).bytes_sent;
    }
    return bytes;
  }

  Outcome Once(uint32_t round, const Order& order, Told* told) {
    AllReduceRequest request;
    request.tag = {JobId{1}, Epoch{1}, RoundId{round}, 0};
    request.members = members_;
    request.codec = codec_;
    request.num_params = tensor_.size();
    for (int i = 0; plan_.sites > 1 && !plan_.one_level && i < plan_.ranks; ++i) request.sites.push_back(plan_.site(i));
    request.deadline = absl::Minutes(2);
    const absl::Duration start = clock_.Monotonic();
    if (codec_->is_verbatim()) {
      request.packed = Buffer::Wrap(tensor::AsBytes(tensor_.span()), nullptr);  // outlives all that send it
    } else {
      codec_->Encode(tensor_.span(), absl::MakeSpan(*packed_));
      request.packed = Buffer::Wrap(*packed_, packed_);
    }
    told->packing_sec = absl::ToDoubleSeconds(clock_.Monotonic() - start);
    const auto shares = order.shares.begin();
    if (std::any_of(shares, order.shares.end(), [](uint32_t share) { return share > 0; })) {
      request.shares.assign(shares, shares + plan_.ranks);
    }
    request.into = std::move(mean_);
    std::promise<Outcome> done;
    loop_.Post([&] { tasks_->Spawn(Reduce(exchange_.get(), std::move(request), &done)); });
    Outcome outcome = done.get_future().get();
    mean_ = std::move(outcome.mean);
    told->up = static_cast<double>(outcome.link.up_bytes_per_sec);
    told->down = static_cast<double>(outcome.link.down_bytes_per_sec);
    told->rtt_sec = absl::ToDoubleSeconds(outcome.link.rtt);
    told->values_per_sec = static_cast<double>(outcome.link.values_per_sec);
    return outcome;
  }

  void On(std::function<void()> fn) {
    std::promise<void> done;
    loop_.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().get();
  }

  double MaxError(absl::Span<const float> mean) const {
    double error = 0, magnitude = 0;
    for (uint64_t i = 0; i < mean.size(); ++i) {
      double exact = 0;
      for (int rank = 0; rank < plan_.ranks; ++rank) exact += static_cast<double>(ValueOf(rank, i));
      exact /= plan_.ranks;
      error = std::max(error, std::abs(exact - static_cast<double>(mean[i])));
      magnitude = std::max(magnitude, std::abs(exact));
    }
    return error / magnitude;
  }

  const Plan plan_;
  const int rank_;
  const Wire referee_;
  const SystemClock clock_;
  ThreadPool pool_;
  ThreadPool loop_thread_;
  LoopExecutor loop_;
  std::shared_ptr<const compress::Codec> codec_;
  tensor::FlatBuffer tensor_, mean_;
  std::shared_ptr<std::vector<uint8_t>> packed_;
  std::vector<wire::Contribution> members_;
  std::unique_ptr<net::TlsTransport> transport_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<TaskScope> tasks_;
};

double LimitSeconds(const Plan& plan) {
  const double bytes = plan.mib * (1 << 20);
  return plan.rtt_ms / 1e3 + 2.0 * (plan.ranks - 1) / plan.ranks * bytes * 8 / (0.956 * plan.rate_mbit * 1e6);
}

// What the JSON line says of shaped links; "" on loopback.
std::string LinkFields(const Plan& plan, double median_s) {
  if (plan.rate_mbit == 0) return "";
  const double limit_s = LimitSeconds(plan);
  return absl::StrFormat(
      ", \"rate_mbit\": %g, \"first_mbit\": %g, \"rtt_ms\": %g, \"loss\": %g, \"idle_s\": %g, \"congestion_control\": \"%s\", \"limit_ms\": %.2f, \"of_limit\": %.3f", plan.rate_mbit,
      plan.first_mbit, plan.rtt_ms, plan.loss, plan.idle_s, plan.congestion_control.empty() ? "default" : plan.congestion_control, 1e3 * limit_s, limit_s / median_s);
}

// Less when a rank ends: nothing else comes from one that waits.
void StayIdle(const std::vector<Wire>& ranks, double seconds) {
  std::vector<pollfd> polls;
  for (const Wire& rank : ranks) polls.push_back({rank.in, POLLIN, 0});
  poll(polls.data(), polls.size(), static_cast<int>(seconds * 1e3));
}

// What the lead of a job does between its rounds.
class Lead {
 public:
  Lead(const Plan& plan, const std::vector<Address>& addresses)
      : plan_(plan), tuner_(CodecsOf(plan), plan.num_values()), codec_(CodecsOf(plan).back()) {
    for (const Address& address : addresses) members_.push_back(NodeId(Digest{address.node}));
    if (plan.chooses()) codec_ = *compress::CodecSpec::Parse("int8");
  }

  Order Next() {
    codec_ = tuner_.ChooseCodec(members_, codec_);
    Order order{};
    const std::string name = codec_.ToString();
    name.copy(order.codec.data(), order.codec.size() - 1);
    shares_ = plan_.deal_shares ? tuner_.DealShares(members_) : std::vector<uint32_t>();
    std::copy(shares_.begin(), shares_.end(), order.shares.begin());
    return order;
  }

  void Learn(size_t rank, const Told& told) {
    const auto whole = [](double rate) { return static_cast<uint64_t>(rate); };
    tuner_.Learn(members_[rank], codec_, absl::Seconds(told.packing_sec),
                 {whole(told.up), whole(told.down), absl::Seconds(told.rtt_sec), whole(told.values_per_sec)});
  }

  std::string codec() const { return codec_.ToString(); }
  std::string shares() const {
    return absl::StrJoin(shares_, ", ", [](std::string* out, uint32_t share) {
      absl::StrAppendFormat(out, "%.3f", static_cast<double>(share) / wire::kSharesWhole);
    });
  }

 private:
  static std::vector<compress::CodecSpec> CodecsOf(const Plan& plan) {
    std::vector<compress::CodecSpec> codecs;
    for (const char* name : {"fp32", "bf16", "int8", "int4"}) codecs.push_back(*compress::CodecSpec::Parse(name));
    return plan.chooses() ? codecs : std::vector{*compress::CodecSpec::Parse(plan.codec)};
  }

  const Plan plan_;
  schedule::ExchangeTuner tuner_;
  compress::CodecSpec codec_;
  std::vector<NodeId> members_;
  std::vector<uint32_t> shares_;
};

int Referee(const Plan& plan, const std::vector<Wire>& ranks) {
  std::vector<Address> addresses;
  for (const Wire& rank : ranks) addresses.push_back(rank.Get<Address>());
  for (const Wire& rank : ranks) {
    for (const Address& address : addresses) rank.Put(address);
  }
  Lead lead(plan, addresses);
  std::vector<double> seconds;
  for (int run = 0; run < plan.warmup + plan.runs; ++run) {
    for (const Wire& rank : ranks) rank.Get<char>();
    const Order order = lead.Next();
    for (const Wire& rank : ranks) rank.Put(order);
    for (const Wire& rank : ranks) rank.Get<char>();
    if (run >= plan.warmup && plan.idle_s > 0) StayIdle(ranks, plan.idle_s);
    for (const Wire& rank : ranks) rank.Put('g');
    double slowest = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Told told = ranks[i].Get<Told>();
      slowest = std::max(slowest, told.seconds);
      lead.Learn(i, told);
    }
    if (run >= plan.warmup) seconds.push_back(slowest);
  }
  std::vector<Result> results;
  for (const Wire& rank : ranks) results.push_back(rank.Get<Result>());
  for (const Wire& rank : ranks) rank.Put('e');
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double p95 = seconds[std::min(seconds.size() - 1, seconds.size() * 95 / 100)];
  double cpu = 0;
  uint64_t peak = 0, sent = 0, between = 0;
  bool same = true;
  for (const Result& result : results) {
    cpu += result.cpu_seconds;
    peak = std::max(peak, result.peak_bytes);
    sent += result.bytes_sent;
    between += result.bytes_between;
    same = same && result.digest == results[0].digest;
  }
  const double tensor_gb = plan.mib * (1 << 20) / 1e9;
  std::printf(
      "{\"peer\": \"gdf\", \"ranks\": %d, \"mib\": %g, \"codec\": \"%s\", \"clear\": %s, \"median_ms\": %.2f, \"p95_ms\": %.2f, "
      "\"payload_gib_per_s\": %.3f, \"cpu_seconds_per_gb\": %.3f, \"peak_mib\": %.1f, \"sent_mib_per_rank\": %.2f, "
      "\"mib_between_sites\": %.2f, \"max_error\": %.3g, \"digests_equal\": %s, \"used\": \"%s\", \"shares\": [%s]%s}\n",
      plan.ranks, plan.mib, plan.codec.c_str(), plan.clear ? "true" : "false", 1e3 * median, 1e3 * p95, plan.mib / 1024 / median,
      cpu / plan.runs / plan.ranks / tensor_gb, static_cast<double>(peak) / (1 << 20),
      static_cast<double>(sent) / plan.runs / plan.ranks / (1 << 20), static_cast<double>(between) / plan.runs / (1 << 20),
      results[0].max_error, same ? "true" : "false",
      lead.codec().c_str(), lead.shares().c_str(), LinkFields(plan, median).c_str());
  // Full buckets at the start save a little of it, no more.
  const bool shaped = plan.rate_mbit == 0 || plan.first_mbit > 0 || plan.codec != "fp32" || median > 0.8 * LimitSeconds(plan);
  if (!shaped) std::fprintf(stderr, "exchange_bench: faster than the links, which then are not what they should be\n");
  return same && shaped ? 0 : 1;
}

int Main(const Plan& plan) {
  std::unique_ptr<testing::ShapedLinks> links;
  if (plan.rate_mbit > 0) {
    auto made = testing::ShapedLinks::Create(
        plan.ranks, {plan.rate_mbit * 1e6, plan.first_mbit * 1e6, absl::Microseconds(1e3 * plan.rtt_ms), plan.loss});
    if (!made.ok()) {
      std::fprintf(stderr, "exchange_bench: %s\n", made.status().ToString().c_str());
      return absl::IsPermissionDenied(made.status()) || absl::IsNotFound(made.status()) ? 77 : 1;
    }
    links = *std::move(made);
  }
  std::vector<Wire> ranks;
  std::vector<pid_t> children;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    int down[2], up[2];
    GDF_CHECK(pipe(down) == 0 && pipe(up) == 0);
    const pid_t child = fork();
    GDF_CHECK(child >= 0);
    if (child == 0) {
      for (const Wire& other : ranks) {
        close(other.in);
        close(other.out);
      }
      close(down[1]);
      close(up[0]);
      GDF_CHECK(!links || links->Enter(rank).ok());
      std::exit(Rank(plan, rank, Wire{down[0], up[1]}).Run());
    }
    close(down[0]);
    close(up[1]);
    ranks.push_back(Wire{up[0], down[1]});
    children.push_back(child);
  }
  if (links) links->Start();
  int status = Referee(plan, ranks);
  for (const pid_t child : children) {
    int ended = 0;
    waitpid(child, &ended, 0);
    if (ended != 0) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace gdf::exchange

int main(int argc, char** argv) {
  gdf::exchange::Plan plan;
  CLI::App app("All-reduce between processes");
  app.add_option("--ranks", plan.ranks)->check(CLI::Range(2, 16));
  app.add_option("--mib", plan.mib, "size of the float32 tensor")->check(CLI::Range(0.001, 4096.0));
  app.add_option("--codec", plan.codec);
  app.add_option("--runs", plan.runs)->check(CLI::Range(1, 1000));
  app.add_option("--warmup", plan.warmup)->check(CLI::Range(0, 100));
  app.add_option("--idle-s", plan.idle_s, "before each measured run")->check(CLI::Range(0.0, 600.0));
  auto* rate = app.add_option("--rate-mbit", plan.rate_mbit, "of each node's link; without it, loopback")->check(CLI::Range(0.1, 1e5));
  app.add_option("--first-mbit", plan.first_mbit, "of rank 0's link, where it is another")->check(CLI::Range(0.1, 1e5))->needs(rate);
  auto* deal = app.add_flag("--deal-shares", plan.deal_shares, "in proportion to the links, as measured");
  auto* sites = app.add_option("--sites", plan.sites)->check(CLI::Range(1, 16))->excludes(deal);
  app.add_flag("--one-level", plan.one_level, "everybody sends to everybody, whatever the sites")->needs(sites);
  app.add_option("--rtt-ms", plan.rtt_ms)->check(CLI::Range(0.0, 2000.0))->needs(rate);
  app.add_option("--loss", plan.loss, "share of packets")->check(CLI::Range(0.0, 0.5))->needs(rate);
  app.add_flag("--clear", plan.clear, "without TLS after the hello");
  app.add_option("--congestion-control", plan.congestion_control, "of TCP; default: BBR where the kernel has it");
  CLI11_PARSE(app, argc, argv);
  return gdf::exchange::Main(plan);
}
