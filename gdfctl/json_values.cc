#include "gdfctl/json_values.h"

namespace gdf::ctl {
namespace {

Json TimeJson(absl::Time at) {
  if (at == absl::InfinitePast() || at == absl::InfiniteFuture()) return nullptr;
  return UtcText(at);
}

Json OptionalJson(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json SizesJson(const std::vector<std::pair<std::string, uint64_t>>& items) {
  Json list = Json::array();
  for (const auto& [name, bytes] : items) list.push_back({{"name", name}, {"bytes", bytes}});
  return list;
}

Json GpusJson(const std::vector<control::Gpu>& gpus) {
  Json list = Json::array();
  for (const control::Gpu& gpu : gpus) list.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}});
  return list;
}

}  // namespace

Json ToJson(const control::Node& node) {
  return {{"id", node.id},
          {"name", node.name},
          {"roles", node.roles},
          {"state", node.state},
          {"online", node.online},
          {"paused", node.paused},
          {"coordinator", node.coordinator},
          {"leads", node.leads},
          {"addresses", node.addresses},
          {"cpu_threads", node.cpu_threads},
          {"memory_bytes", node.memory_bytes},
          {"gpus", GpusJson(node.gpus)},
          {"version", node.version},
          {"joined", TimeJson(node.joined)},
          {"rtt_seconds", absl::ToDoubleSeconds(node.rtt)},
          {"bytes_sent", node.bytes_sent},
          {"bytes_received", node.bytes_received}};
}

Json ToJson(const control::PingResult& ping) {
  return {{"id", ping.id},
          {"name", ping.name},
          {"remote", ping.remote},
          {"dialled", ping.dialled},
          {"connections", ping.connections},
          {"round_trip_seconds", absl::ToDoubleSeconds(ping.round_trip)},
          {"tcp_rtt_seconds", absl::ToDoubleSeconds(ping.tcp_rtt)},
          {"rate_bytes_per_sec", ping.rate_bytes_per_sec},
          {"bulk_in_clear", ping.bulk_in_clear},
          {"relay", ping.relay}};
}

Json ToJson(const control::Round& round) {
  return {{"round", round.round},
          {"epoch", round.epoch},
          {"loss", OptionalJson(round.loss)},
          {"validation_loss", OptionalJson(round.validation_loss)},
          {"tokens", round.tokens},
          {"tokens_per_sec", round.tokens_per_sec},
          {"utilisation", round.utilisation},
          {"bytes_sent", round.bytes_sent},
          {"bytes_received", round.bytes_received},
          {"compute_seconds", absl::ToDoubleSeconds(round.compute)},
          {"compress_seconds", absl::ToDoubleSeconds(round.compress)},
          {"exchange_seconds", absl::ToDoubleSeconds(round.exchange)},
          {"aggregate_seconds", absl::ToDoubleSeconds(round.aggregate)},
          {"members", round.members},
          {"digest", round.digest},
          {"fragment_digest", round.fragment_digest},
          {"at", TimeJson(round.at)}};
}

Json ToJson(const control::Event& event) {
  return {{"id", event.id},     {"at", TimeJson(event.at)},     {"job", event.job},
          {"node", event.node}, {"severity", event.severity}, {"text", event.text}, {"node_name", event.node_name}};
}

Json ToJson(const control::Job& job) {
  Json json = {{"id", job.id},
               {"name", job.name},
               {"phase", control::ToString(job.phase)},
               {"reason", job.reason},
               {"submitter", job.submitter},
               {"submitter_name", job.submitter_name},
               {"submitted", TimeJson(job.submitted)},
               {"started", TimeJson(job.started)},
               {"ended", TimeJson(job.ended)},
               {"epoch", job.epoch},
               {"lead", job.lead},
               {"lead_name", job.lead_name},
               {"members", job.members},
               {"member_names", job.member_names},
               {"rounds_done", job.rounds_done},
               {"rounds_total", job.rounds_total},
               {"steps_total", job.steps_total},
               {"last_round", job.last_round ? ToJson(*job.last_round) : Json(nullptr)}};
  if (!job.spec_yaml.empty()) json["spec_yaml"] = job.spec_yaml;
  return json;
}

Json ToJson(const control::NodeStatus& status) {
  return {{"version", status.version},
          {"node_id", status.node_id},
          {"node_name", status.node_name},
          {"network_id", status.network_id},
          {"network_name", status.network_name},
          {"roles", status.roles},
          {"coordinator", status.coordinator},
          {"coordinator_connected", status.coordinator_connected},
          {"coordinators", status.coordinators},
          {"leader", status.leader},
          {"leaderless_seconds", absl::ToDoubleSeconds(status.leaderless)},
          {"log_index", status.log_index},
          {"listen", status.listen},
          {"advertise", status.advertise},
          {"members", status.members},
          {"members_online", status.members_online},
          {"jobs_pending", status.jobs_pending},
          {"jobs_running", status.jobs_running},
          {"running", ToJsonList(status.running)},
          {"warnings", status.warnings},
          {"sandbox", status.sandbox},
          {"started", TimeJson(status.started)},
          {"chunk_bytes", status.chunk_bytes},
          {"chunk_cap_bytes", status.chunk_cap_bytes},
          {"gpus", GpusJson(status.gpus)},
          {"paused", status.paused},
          {"paused_until", TimeJson(status.paused_until)},
          {"running_here", status.running_here}};
}

Json ToJson(const control::Invite& invite) {
  Json json = {{"id", invite.id},
               {"roles", invite.roles},
               {"expires", TimeJson(invite.expires)},
               {"uses_left", invite.uses_left},
               {"revoked", invite.revoked}};
  if (!invite.text.empty()) json["invite"] = invite.text;
  return json;
}

Json ToJson(const control::JobPlan& plan) {
  return {{"placeable", plan.placeable},
          {"reason", plan.reason},
          {"nodes", plan.nodes},
          {"lead", plan.lead},
          {"parameters", plan.parameters},
          {"rounds", plan.rounds},
          {"bytes_per_round_per_node", plan.bytes_per_round_per_node},
          {"host_memory", SizesJson(plan.host_memory)},
          {"gpu_memory", SizesJson(plan.gpu_memory)},
          {"seconds", plan.duration > absl::ZeroDuration() ? Json(absl::ToDoubleSeconds(plan.duration)) : Json(nullptr)},
          {"measured_in", plan.measured_in.empty() ? Json(nullptr) : Json(plan.measured_in)}};
}

Json ToJson(const control::Checkpoint& checkpoint) {
  Json copies = Json::array();
  for (const control::CheckpointCopy& copy : checkpoint.copies) {
    copies.push_back({{"node", copy.node},
                      {"node_name", copy.node_name},
                      {"written", TimeJson(copy.written)},
                      {"new_bytes", copy.new_bytes},
                      {"parameters", copy.parameters},
                      {"inner_state", copy.inner_state}});
  }
  return {{"round", checkpoint.round},
          {"digest", checkpoint.digest},
          {"momentum_digest", checkpoint.momentum_digest.empty() ? Json(nullptr) : Json(checkpoint.momentum_digest)},
          {"parameters", checkpoint.parameters},
          {"epoch", checkpoint.epoch},
          {"data_epoch", checkpoint.data_epoch},
          {"data_position", checkpoint.data_position},
          {"signers", checkpoint.signers},
          {"signer_names", checkpoint.signer_names},
          {"wanted", checkpoint.wanted},
          {"copies", copies}};
}

Json ToJson(const control::CheckpointList& list) {
  return {{"checkpoints", ToJsonList(list.checkpoints)},
          {"silent", list.silent},
          {"silent_names", list.silent_names},
          {"passed_over", list.passed_over}};
}

Json ToJson(const control::CheckpointCheck& check) {
  const auto chunks = [](const std::vector<control::CheckpointCheck::Chunk>& list) {
    Json out = Json::array();
    for (const control::CheckpointCheck::Chunk& chunk : list) out.push_back({{"id", chunk.id}, {"part", chunk.part}});
    return out;
  };
  return {{"whole", check.whole()},
          {"chunks", check.chunks},
          {"bytes", check.bytes},
          {"parameters", check.parameters},
          {"outer_state", check.outer_state},
          {"inner_state", check.inner_state},
          {"repaired", chunks(check.repaired)},
          {"missing", chunks(check.missing)},
          {"why_not", check.why_not.empty() ? Json(nullptr) : Json(check.why_not)},
          {"wrong", check.wrong.empty() ? Json(nullptr) : Json(check.wrong)}};
}

}  // namespace gdf::ctl
