#include "core/config/node_config.h"

#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/config/units.h"
#include "core/config/yaml_reader.h"

namespace gdf::config {
namespace {

constexpr std::pair<std::string_view, LogLevel> kLogLevels[] = {{"debug", LogLevel::kDebug},
                                                                {"info", LogLevel::kInfo},
                                                                {"warning", LogLevel::kWarning},
                                                                {"error", LogLevel::kError}};
constexpr std::pair<std::string_view, GpuUse> kGpuUses[] = {
    {"auto", GpuUse::kAuto}, {"always", GpuUse::kAlways}, {"never", GpuUse::kNever}};
constexpr uint64_t kMinRate = 1000;  // below this even control messages would time out
constexpr uint64_t kMaxRate = uint64_t{1} << 50;
constexpr uint64_t kMinDiskCache = uint64_t{64} << 20;
constexpr uint64_t kMinMemory = uint64_t{256} << 20;
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;

class NodeConfigParser {
 public:
  NodeConfigParser(const YamlNode* root, Problems* problems)
      : problems_(problems), root_(root, "", problems) {}

  NodeConfig Parse() {
    root_.String("name", Need::kOptional, &config_.name);
    if (config_.name.size() > 63) root_.Reject("name", "must have at most 63 bytes");
    ReadAbsolutePath("state_dir", &config_.state_dir);
    ReadEndpoints("listen", &config_.listen);
    ReadEndpoints("advertise", &config_.advertise);
    for (const Endpoint& endpoint : config_.advertise) {
      if (endpoint.port == 0) root_.Reject("advertise", "must have a port other than 0");
    }
    ReadAbsolutePath("control_socket", &config_.control_socket);
    root_.String("operator_group", Need::kOptional, &config_.operator_group);
    ReadRemoteControl(root_.Map("remote_control", Need::kOptional));
    ReadLimits(root_.Map("limits", Need::kOptional));
    ReadLog(root_.Map("log", Need::kOptional));
    root_.Strings("clear_networks", Need::kOptional, &config_.clear_networks);
    root_.String("congestion_control", Need::kOptional, &config_.congestion_control);
    root_.Bool("port_mapping", Need::kOptional, &config_.port_mapping);
    ReadAbsolutePath("worker", &config_.worker);
    root_.Finish();
    return std::move(config_);
  }

 private:
  // A service's working folder is nothing a user knows, so relative paths are refused.
  void ReadAbsolutePath(std::string_view key, std::string* out) {
    root_.String(key, Need::kOptional, out);
    if (root_.Has(key) && !out->empty() && out->front() != '/') {
      root_.Reject(key, absl::StrFormat("must be an absolute path, got '%s'", *out));
    }
  }

  void ReadEndpoints(std::string_view key, std::vector<Endpoint>* out) {
    std::vector<std::string> texts;
    std::vector<SourceLocation> places;
    root_.Strings(key, Need::kOptional, &texts, &places);
    if (!texts.empty()) out->clear();
    for (size_t i = 0; i < texts.size(); ++i) {
      absl::StatusOr<Endpoint> endpoint = ParseEndpoint(texts[i]);
      if (endpoint.ok()) {
        out->push_back(*std::move(endpoint));
      } else {
        problems_->Add(places[i], absl::StrFormat("'%s': %s", key, endpoint.status().message()));
      }
    }
  }

  void ReadRemoteControl(YamlMap map) {
    std::string listen;
    map.String("listen", Need::kRequired, &listen);
    if (!listen.empty()) {
      absl::StatusOr<Endpoint> endpoint = ParseEndpoint(listen);
      if (endpoint.ok()) {
        config_.remote_control.listen = *std::move(endpoint);
      } else {
        problems_->Add(map.At("listen"), absl::StrFormat("'%s': %s", map.Path("listen"),
                                                         endpoint.status().message()));
      }
    }
    map.String("client_certificates", Need::kRequired, &config_.remote_control.client_certificates);
    map.Finish();
  }

  // "unlimited" is how a user says what leaving the key out means.
  void ReadRate(YamlMap* map, std::string_view key, std::optional<uint64_t>* out) {
    std::string word;
    if (map->Has(key)) map->String(key, Need::kOptional, &word);
    if (word.empty() || word == "unlimited") return map->Know(key);
    uint64_t rate = 0;
    map->Rate(key, Need::kOptional, {kMinRate, kMaxRate}, &rate);
    if (rate > 0) *out = rate;
  }

  void ReadRelay(YamlMap* map, std::optional<uint64_t>* out) {
    std::string word;
    if (map->Has("relay")) map->String("relay", Need::kOptional, &word);
    if (word.empty() || word == "off") return map->Know("relay");
    std::optional<uint64_t> rate;
    ReadRate(map, "relay", &rate);
    *out = rate.value_or(0);
  }

  void ReadLimits(YamlMap map) {
    NodeLimits& l = config_.limits;
    ReadRate(&map, "upload", &l.upload_bytes_per_sec);
    ReadRate(&map, "download", &l.download_bytes_per_sec);
    ReadRelay(&map, &l.relay_bytes_per_sec);
    map.Size("disk_cache", Need::kOptional, {kMinDiskCache, kMaxBytes}, &l.disk_cache_bytes);
    uint64_t memory = 0;
    map.Size("memory", Need::kOptional, {kMinMemory, kMaxBytes}, &memory);
    if (memory > 0) l.memory_bytes = memory;
    map.Int("cpu_threads", Need::kOptional, {0, 1024}, &l.cpu_threads);
    map.Int("tasks", Need::kOptional, {1, 64}, &l.tasks);
    map.Enum<GpuUse>("gpus", Need::kOptional, kGpuUses, &l.gpus);
    map.Finish();
  }

  void ReadLog(YamlMap map) {
    LogConfig& log = config_.log;
    map.Enum<LogLevel>("level", Need::kOptional, kLogLevels, &log.level);
    std::string to;
    map.String("to", Need::kOptional, &to);
    if (to == "journald") {
      log.target = LogTarget::kJournald;
    } else if (!to.empty() && to.front() == '/') {
      log.target = LogTarget::kFile;
      log.file = to;
    } else if (!to.empty() && to != "stderr") {
      map.Reject("to",
                 absl::StrFormat("must be stderr, journald or the absolute path of a file, got "
                                 "'%s'",
                                 to));
    }
    map.Finish();
  }

  NodeConfig config_;
  Problems* problems_;
  YamlMap root_;
};

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  const auto invalid = [&](std::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrFormat("'%s' is no address: %s", text.substr(0, 80), expected));
  };
  constexpr std::string_view kExpected = "expected HOST:PORT, with an IPv6 address in brackets";
  constexpr size_t kMaxHost = 253;  // of a DNS name, RFC 1035
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid(kExpected);
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  constexpr std::string_view kAddress6 = "0123456789abcdefABCDEF:.";
  constexpr std::string_view kName =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  if (host.empty() || host.size() > kMaxHost ||
      host.find_first_not_of(bracketed ? kAddress6 : kName) != std::string_view::npos ||
      (bracketed && host.find(':') == std::string_view::npos)) {
    return invalid(kExpected);
  }
  Endpoint endpoint{.host = std::string(host)};
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), endpoint.port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) {
    return invalid("the port must be from 0 to 65535");
  }
  return endpoint;
}

std::string ToString(const Endpoint& endpoint) {
  const bool address6 = endpoint.host.find(':') != std::string::npos;
  return absl::StrFormat("%s:%d", address6 ? "[" + endpoint.host + "]" : endpoint.host,
                         static_cast<int>(endpoint.port));
}

absl::StatusOr<NodeConfig> ParseNodeConfig(std::string_view text, std::string_view filename) {
  Problems problems(filename);
  const std::optional<YamlNode> root = ParseYaml(text, &problems);
  NodeConfig config;
  if (root && root->kind == YamlNode::Kind::kMap) {
    config = NodeConfigParser(&*root, &problems).Parse();
  } else if (root && root->kind != YamlNode::Kind::kNull) {
    problems.Add({1, 1}, "must be a mapping of keys to values");
  }
  GDF_RETURN_IF_ERROR(problems.ToStatus());
  return config;
}

}  // namespace gdf::config
