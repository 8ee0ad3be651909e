#include "core/config/node_config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gdf::config {
namespace {

NodeConfig Parse(const std::string& text) {
  const auto config = ParseNodeConfig(text, "gdfd.yaml");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

TEST_CASE("configs/gdfd.yaml shows the defaults") {
  std::ifstream in(std::string(GDF_SOURCE_DIR) + "/configs/gdfd.yaml");
  std::stringstream text;
  text << in.rdbuf();
  REQUIRE(text.str().size() > 100);
  CHECK(Parse(text.str()) == NodeConfig{});
  CHECK(Parse("") == NodeConfig{});
}

TEST_CASE("every key of gdfd.yaml") {
  const NodeConfig c = Parse(R"(
name: workshop
state_dir: /srv/gdf
listen: ["0.0.0.0:0", "[::1]:7420"]
advertise: gpu.example.org:7420
control_socket: /tmp/s
operator_group: gdf
remote_control: {listen: "192.0.2.10:7421", client_certificates: /etc/gdf/clients.pem}
limits:
  {upload: 100Mbit/s, download: unlimited, relay: 8Mbit/s, disk_cache: 1GiB, memory: 8GiB, cpu_threads: 4, tasks: 2,
   gpus: never}
log: {level: debug, to: /var/log/gdfd.log}
clear_networks: [10.0.0.0/8, "fd00::/8"]
congestion_control: cubic
port_mapping: false
worker: /usr/lib/gdf/gdf-worker
)");
  CHECK(c.name == "workshop");
  CHECK(c.listen == std::vector<Endpoint>{{"0.0.0.0", 0}, {"::1", 7420}});
  CHECK(c.advertise == std::vector<Endpoint>{{"gpu.example.org", 7420}});
  CHECK(c.remote_control.listen == Endpoint{"192.0.2.10", 7421});
  CHECK(c.remote_control.client_certificates == "/etc/gdf/clients.pem");
  CHECK(c.limits.upload_bytes_per_sec == 12'500'000);
  CHECK_FALSE(c.limits.download_bytes_per_sec.has_value());
  CHECK(c.limits.relay_bytes_per_sec == 1'000'000);
  CHECK(Parse("limits: {relay: unlimited}").limits.relay_bytes_per_sec == 0);
  CHECK_FALSE(Parse("limits: {relay: off}").limits.relay_bytes_per_sec.has_value());
  CHECK(c.limits.memory_bytes == uint64_t{8} << 30);
  CHECK(c.limits.tasks == 2);
  CHECK(c.limits.gpus == GpuUse::kNever);
  CHECK(c.log == LogConfig{LogLevel::kDebug, LogTarget::kFile, "/var/log/gdfd.log"});
  CHECK(c.clear_networks == std::vector<std::string>{"10.0.0.0/8", "fd00::/8"});
  CHECK(c.congestion_control == "cubic");
  CHECK_FALSE(c.port_mapping);
}

TEST_CASE("gdfd.yaml: what is wrong is told with its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"- a", "gdfd.yaml:1:1: must be a mapping of keys to values"},
      {"state_dri: /x", "gdfd.yaml:1:1: unknown key 'state_dri'; did you mean 'state_dir'?"},
      {"state_dir: x", "gdfd.yaml:1:12: 'state_dir' must be an absolute path, got 'x'"},
      {"listen: 7420",
       "gdfd.yaml:1:9: 'listen': '7420' is no address: expected HOST:PORT, with an IPv6 address in "
       "brackets"},
      {"listen: ['a:1', '::1:7420']",
       "gdfd.yaml:1:17: 'listen': '::1:7420' is no address: expected HOST:PORT, with an IPv6 "
       "address "
       "in brackets"},
      {"listen: a:70000",
       "gdfd.yaml:1:9: 'listen': 'a:70000' is no address: the port must be from 0 to 65535"},
      {"advertise: a:0", "gdfd.yaml:1:12: 'advertise' must have a port other than 0"},
      {"remote_control: {listen: 'a:1'}",
       "gdfd.yaml:1:17: missing key 'client_certificates' in 'remote_control'"},
      {"limits: {upload: 12}",
       "gdfd.yaml:1:18: 'limits.upload' must be a rate with a unit from 1kB/s to 1PiB/s, got '12'"},
      {"limits: {tasks: 0}",
       "gdfd.yaml:1:17: 'limits.tasks' must be a whole number from 1 to 64, got '0'"},
      {"limits: {gpus: 2}",
       "gdfd.yaml:1:16: 'limits.gpus' must be one of auto, always, never, got '2'"},
      {"log: {to: syslog}",
       "gdfd.yaml:1:11: 'log.to' must be stderr, journald or the absolute path of a file, got "
       "'syslog'"},
      {"log: {level: warn}",
       "gdfd.yaml:1:14: 'log.level' must be one of debug, info, warning, error, got 'warn'"},
  };
  for (const auto& [text, message] : cases) {
    const auto config = ParseNodeConfig(text, "gdfd.yaml");
    CHECK(config.status().message() == message);
  }
}

TEST_CASE("endpoints") {
  for (const std::string text : {"example.org:7420", "192.0.2.1:0", "[2001:db8::1]:65535"}) {
    CHECK(ToString(*ParseEndpoint(text)) == text);
  }
  for (const std::string text :
       {"", ":1", "a", "a:", "a:-1", "a:1x", "[]:1", "[a.b]:1", "[::1]", "a b:1"}) {
    INFO(text);
    CHECK_FALSE(ParseEndpoint(text).ok());
  }
}

}  // namespace
}  // namespace gdf::config
