#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/encoding.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/schedule/cost.h"
#include "gdfd/jobs/past_speed.h"
#include "gdfd/services/control_service.h"
#include "gdfd/jobs/job_request.h"
#include "gdfd/services/to_proto.h"

namespace gdf::services {

namespace v1 = control::v1;

namespace {

constexpr absl::Duration kWatchPause =
    absl::Seconds(1);  // how soon a watcher that went away is noticed
constexpr size_t kNewsLimit = 1000;  // events, and rounds, that a watcher is told at once

// Ends when something more is recorded, or after a while.
Task<absl::Status> WaitForMore(membership::Membership& membership, uint64_t index) {
  co_await membership.WaitApplied(index + 1, kWatchPause);
  co_return absl::OkStatus();
}

// The spec with its shape, from the model's config.json where the spec has none.
absl::StatusOr<config::ModelShape> ShapeOf(const config::JobSpec& spec,
                                           const std::string& hf_config_json) {
  if (spec.model.shape) {
    return jobs::WithAssumedVocab(*spec.model.shape);
  }
  if (hf_config_json.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.from: ", spec.model.from->path, " comes without its config.json"));
  }
  GDF_ASSIGN_OR_RETURN(config::ModelShape shape,
                       config::ModelShapeFromHfConfig(hf_config_json, "config.json"));
  GDF_RETURN_IF_ERROR(config::ValidateWithShape(spec, shape));
  return shape;
}

schedule::CostInput CostInputOf(const config::JobSpec& spec, const config::ModelShape& shape,
                                uint64_t bytes, int64_t nodes, bool gpu) {
  return {.spec = &spec,
          .shape = shape,
          .dataset_bytes = bytes,
          .num_nodes = std::max<int64_t>(1, nodes),
          .gpu = gpu,
          .gpus_per_node = spec.nodes.gpus};
}

void FillCost(const schedule::Cost& cost, v1::PlanReply* reply) {
  reply->set_parameters(static_cast<uint64_t>(cost.num_parameters));
  reply->set_rounds(static_cast<uint64_t>(cost.num_rounds));
  reply->set_bytes_per_round_per_node(cost.upload_bytes_per_round);
  const auto fill = [](const schedule::CostSum& sum, auto* items) {
    for (const schedule::CostItem& item : sum.items) {
      v1::CostItem* added = items->Add();
      added->set_name(item.name);
      added->set_bytes(item.bytes);
    }
  };
  fill(cost.host_memory, reply->mutable_host_memory());
  fill(cost.gpu_memory, reply->mutable_gpu_memory());
  if (cost.compute_time) {
    reply->set_seconds(absl::ToDoubleSeconds(*cost.compute_time + cost.exchange_time.value_or(absl::ZeroDuration())));
  }
}

// A job whose shape only its submitter can see states its memory itself.
void StateMemory(config::JobSpec& spec, const config::ModelShape& shape, uint64_t bytes) {
  if (spec.model.shape) return;
  if (spec.nodes.memory_bytes == 0) {
    spec.nodes.memory_bytes =
        schedule::EstimateCost(CostInputOf(spec, shape, bytes, spec.nodes.max, false)).host_memory.total_bytes();
  }
  if (spec.nodes.device == config::Device::kGpu && spec.nodes.gpu_memory_bytes == 0) {
    spec.nodes.gpu_memory_bytes =
        schedule::EstimateCost(CostInputOf(spec, shape, bytes, spec.nodes.max, true)).gpu_memory.total_bytes();
  }
}

}  // namespace

NodeNames ControlService::Names() const {
  absl::StatusOr<std::vector<state::Member>> members = node_.state.members();
  // Whoever asks next is told why the state cannot be read.
  return NodeNames(members.ok() ? *members : std::vector<state::Member>{});
}

std::string ControlService::SilentMembers(const state::Job& job, const NodeNames& names) const {
  std::vector<std::string> silent;
  if (!node_.membership.connected()) return "";  // who is online is not known here
  const std::vector<NodeId> online = node_.membership.Online();
  for (const NodeId& member : job.members) {
    if (!std::binary_search(online.begin(), online.end(), member)) silent.push_back(names.Of(member));
  }
  return absl::StrJoin(silent, ", ");
}

v1::Job ControlService::Describe(const state::Job& job, const NodeNames& names) const {
  v1::Job out = ToProto(job, names);
  if (job.rounds_done > 0) {
    absl::StatusOr<std::vector<state::RoundRecord>> last =
        node_.state.rounds(job.id, RoundId{job.rounds_done - 1}, 1);
    if (last.ok() && !last->empty()) {
      out.mutable_last_round()->set_at_unix_ms((*last)[0].at_unix_ms);
    }
  }
  if (job.phase == state::JobPhase::kPending) {
    jobs::Scheduler* scheduler = node_.scheduler();
    out.set_reason(scheduler                       ? scheduler->WaitingFor(job.id)
                   : node_.membership.connected() ? "waits to be placed; gdfctl job show on the coordinator says for what"
                                                   : "waits for a coordinator, which is not reachable from here, to place it");
  }
  if (job.phase == state::JobPhase::kRunning) {
    std::vector<std::string> parts;
    if (const jobs::JobTask* task = node_.jobs.Find(job.id))
      parts.push_back(task->progress().activity);
    if (const std::string silent = SilentMembers(job, names); !silent.empty())
      parts.push_back(absl::StrCat("not online: ", silent));
    out.set_reason(absl::StrJoin(parts, "; "));
  }
  return out;
}

grpc::Status ControlService::Plan(grpc::ServerContext*, const v1::PlanRequest* request,
                                  v1::PlanReply* reply) {
  absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(request->spec_yaml(), "job.yaml");
  if (!spec.ok()) return ToGrpc(spec.status());
  absl::StatusOr<config::ModelShape> shape = ShapeOf(*spec, request->hf_config_json());
  if (!shape.ok()) return ToGrpc(shape.status());
  StateMemory(*spec, *shape, request->data_bytes());
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    if (node_.state.has_network() && !node_.membership.connected()) {
      return absl::UnavailableError(
          "no coordinator is reachable from here, so it is not known which nodes are online and have room; see gdfctl status");
    }
    GDF_ASSIGN_OR_RETURN(
        schedule::Placement placement,
        jobs::Preview(node_.state, node_.membership,
                      jobs::MakeJobRequest(JobId{}, *spec, request->data_bytes())));
    reply->set_placeable(placement.verdict == schedule::Verdict::kPlaced);
    reply->set_reason(placement.reason);
    for (const schedule::ChosenNode& node : placement.nodes) {
      GDF_ASSIGN_OR_RETURN(state::Member member, node_.state.member(node.id));
      reply->add_nodes(member.profile.name);
      if (node.id == placement.lead) reply->set_lead(member.profile.name);
    }
    const bool gpu = !placement.nodes.empty() && !placement.nodes[0].gpus.empty();
    const int64_t nodes =
        placement.nodes.empty() ? spec->nodes.max : static_cast<int64_t>(placement.nodes.size());
    schedule::CostInput input = CostInputOf(*spec, *shape, request->data_bytes(), nodes, gpu);
    GDF_ASSIGN_OR_RETURN(const std::optional<jobs::PastSpeed> past,
                         jobs::FindPastSpeed(node_.state, *spec, *shape, gpu));
    if (past) {
      schedule::SetSpeed(past->speed, config::NumParameters(*shape), &input);
      reply->set_measured_in(ToString(past->job));
    }
    FillCost(schedule::EstimateCost(input), reply);
    return absl::OkStatus();
  }));
}

absl::StatusOr<wire::SubmitJob> ControlService::PrepareSubmission(const v1::SubmitRequest& request,
                                                                  config::JobSpec* spec) {
  GDF_ASSIGN_OR_RETURN(*spec, config::ParseJobSpec(request.spec_yaml(), "job.yaml"));
  GDF_ASSIGN_OR_RETURN(config::ModelShape shape, ShapeOf(*spec, request.hf_config_json()));
  wire::SubmitJob command;
  for (const auto& [name, hex] : request.inputs()) {
    const std::string what = absl::StrCat("input ", name, ": not uploaded here");
    absl::StatusOr<Digest> digest = Digest::FromHex(hex);
    GDF_RETURN_IF_ERROR(Annotate(digest.status(), what));
    absl::StatusOr<Buffer> bytes = node_.chunks->Get(*digest);
    GDF_RETURN_IF_ERROR(Annotate(bytes.status(), what));
    absl::StatusOr<store::Manifest> manifest = store::Manifest::Decode(bytes->view());
    GDF_RETURN_IF_ERROR(Annotate(manifest.status(), what));
    command.inputs.push_back({name, *digest, manifest->TotalBytes(), node_.transport.self()});
  }
  std::sort(command.inputs.begin(), command.inputs.end(),
            [](const wire::JobInput& a, const wire::JobInput& b) { return a.name < b.name; });
  StateMemory(*spec, shape, jobs::TextBytes(command.inputs));
  command.name = spec->name;
  command.spec_yaml = config::ToYaml(*spec);
  command.planned_rounds = static_cast<uint64_t>(config::NumRounds(*spec));
  command.submit_token = request.submit_token();
  if (command.submit_token.empty()) {
    uint8_t random[16];
    node_.rng.Fill(absl::MakeSpan(random, 16));
    command.submit_token = HexEncode(absl::MakeConstSpan(random, 16));
  }
  return command;
}

absl::Status ControlService::DropUploads(const std::vector<wire::JobInput>& inputs) {
  for (const wire::JobInput& input : inputs) {
    GDF_RETURN_IF_ERROR(node_.chunks->Drop(UploadOwner(input.manifest)));
  }
  return absl::OkStatus();
}

grpc::Status ControlService::Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                                    v1::SubmitReply* reply) {
  if (absl::Status allowed = CheckOperator("submit jobs"); !allowed.ok()) return ToGrpc(allowed);
  config::JobSpec spec;
  absl::StatusOr<wire::SubmitJob> command = PrepareSubmission(*request, &spec);
  if (!command.ok()) return ToGrpc(command.status());
  const std::vector<wire::JobInput> inputs = command->inputs;
  const std::string token = command->submit_token;

  bool existed = false;
  std::string refused;  // what no node will ever do is said at once
  bridge_.OnExecutor([&] {
    absl::StatusOr<std::vector<state::Job>> jobs = node_.state.jobs();
    existed = jobs.ok() && std::any_of(jobs->begin(), jobs->end(), [&](const state::Job& job) {
                return job.owner == node_.transport.self() && job.submit_token == token;
              });
    absl::StatusOr<schedule::Placement> preview = jobs::Preview(
        node_.state, node_.membership, jobs::MakeJobRequest(JobId{}, spec, jobs::TextBytes(inputs)));
    if (preview.ok() && preview->verdict == schedule::Verdict::kRefused) refused = preview->reason;
    return true;
  });
  if (!refused.empty() && !existed) {
    reply->set_refused(refused);
    return ToGrpc(DropUploads(inputs));
  }
  absl::StatusOr<wire::CommandResult> result = Propose(*std::move(command));
  if (!result.ok()) {
    // What may have been recorded, or is tried again soon, keeps its upload.
    const bool open =
        absl::IsUnavailable(result.status()) || absl::IsDeadlineExceeded(result.status());
    if (!open) DropUploads(inputs).IgnoreError();
    return ToGrpc(result.status());
  }
  // It is recorded: what fails from here on is no failure of the submission.
  reply->set_job(ToString(result->job));
  reply->set_existed(existed);
  const absl::Status held = HandOver(result->job, inputs);
  if (!held.ok()) {
    Log(LogLevel::kWarning, "upload_stays", {{"job", ToString(result->job)}, {"why", held}});
  }
  return grpc::Status::OK;
}

// Pinned for the job before the upload's pin goes. What is cut off between leaves the upload's, which
// the next start hands over.
absl::Status ControlService::HandOver(JobId id, const std::vector<wire::JobInput>& inputs) {
  const absl::Status held = bridge_.OnExecutor([&]() -> absl::Status {
    // The record may not be here yet: this node's own disk can be full.
    absl::StatusOr<state::Job> job = node_.state.job(id);
    if (job.ok() && job->phase == state::JobPhase::kFinished) return absl::OkStatus();
    state::Job recorded;
    recorded.id = id;
    recorded.owner = node_.transport.self();
    recorded.inputs = inputs;
    return node_.jobs.Hold(recorded);
  });
  GDF_RETURN_IF_ERROR(held);
  return DropUploads(inputs);
}

grpc::Status ControlService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                                      v1::ListJobsReply* reply) {
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, node_.state.jobs());
    const NodeNames names = Names();
    for (const state::Job& job : jobs) *reply->add_jobs() = Describe(job, names);
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                    v1::GetJobReply* reply) {
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(*id));
    *reply->mutable_job() = Describe(job, Names());
    return absl::OkStatus();
  }));
}

absl::Status ControlService::LastingCall::status() const {
  if (admitted_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(most_, " callers follow jobs or samples here, more may not; end one of them, or ask "
                          "without following"));
}

absl::StatusOr<std::vector<v1::JobUpdate>> ControlService::NewsOf(JobId id, WatchPosition* seen) {
  std::vector<v1::JobUpdate> out;
  seen->index = node_.state.last_applied();
  GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(id));
  const NodeNames names = Names();
  const v1::Job described = Describe(job, names);
  if (described.phase() != seen->phase) *out.emplace_back().mutable_job() = described;
  seen->phase = described.phase();
  state::EventFilter filter;
  filter.job = id;
  GDF_ASSIGN_OR_RETURN(std::vector<state::Event> events,
                       node_.state.events(seen->event, filter, kNewsLimit));
  GDF_ASSIGN_OR_RETURN(std::vector<state::RoundRecord> rounds,
                       node_.state.rounds(id, seen->round, kNewsLimit));
  // In the order of time, of which both have their own already.
  auto event = events.begin();
  auto round = rounds.begin();
  while (event != events.end() || round != rounds.end()) {
    const bool event_is_next =
        round == rounds.end() || (event != events.end() && event->at_unix_ms <= round->at_unix_ms);
    if (event_is_next) {
      *out.emplace_back().mutable_event() = ToProto(*event, names);
      seen->event = event->id;
      if (++event == events.end() && events.size() == kNewsLimit) break;  // what follows may be next
    } else {
      *out.emplace_back().mutable_round() = ToProto(*round);
      seen->round = round->round.next();
      if (++round == rounds.end() && rounds.size() == kNewsLimit) break;
    }
  }
  const bool finished = job.phase == state::JobPhase::kFinished;
  if (finished && events.empty() && rounds.empty())
    *out.emplace_back().mutable_finished() = described;
  return out;
}

grpc::Status ControlService::WatchJob(grpc::ServerContext* context,
                                      const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::JobUpdate>* writer) {
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  std::optional<LastingCall> lasting;
  if (request->follow()) {
    lasting.emplace(*this);
    if (absl::Status room = lasting->status(); !room.ok()) return ToGrpc(room);
  }
  WatchPosition seen;
  seen.event = request->after_event();
  seen.round = RoundId{request->from_round()};
  while (!context->IsCancelled()) {
    // All that is new, gathered at once, so that what is told last is the end.
    absl::StatusOr<std::vector<v1::JobUpdate>> updates =
        bridge_.OnExecutor([&] { return NewsOf(*id, &seen); });
    if (!updates.ok()) return ToGrpc(updates.status());
    for (const v1::JobUpdate& update : *updates) {
      if (!writer->Write(update)) return grpc::Status::CANCELLED;
      if (update.has_finished()) return grpc::Status::OK;
    }
    if (!updates->empty()) continue;
    if (!request->follow()) return grpc::Status::OK;
    const absl::Status waited =
        bridge_.Await<absl::Status>([&] { return WaitForMore(node_.membership, seen.index); });
    if (!waited.ok()) return ToGrpc(waited);
  }
  return grpc::Status::CANCELLED;
}

grpc::Status ControlService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::CancelJobReply*) {
  if (absl::Status allowed = CheckOperator("cancel jobs"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(Propose(wire::CancelJob{*id, "cancelled by hand"}).status());
}

}  // namespace gdf::services
