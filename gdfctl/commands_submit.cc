#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/config/job_advice.h"
#include "core/config/units.h"
#include "gdfctl/commands.h"
#include "gdfctl/job_file.h"
#include "gdfctl/job_wait.h"
#include "gdfctl/json_values.h"
#include "gdfctl/live_area.h"
#include "gdfctl/render/bar.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

struct SubmitOptions {
  JobFileOptions file;
  bool wait = false;
  std::string token;
  std::string timeout;
};

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  if (text.empty()) return absl::InfiniteDuration();
  absl::StatusOr<absl::Duration> timeout = config::ParseDuration(text);
  if (!timeout.ok()) return absl::InvalidArgumentError(absl::StrCat("--timeout: ", timeout.status().message()));
  return timeout;
}

// Sends one manifest's files; a bar on a terminal.
absl::StatusOr<std::string> Upload(Session& session, const JobFile& job, const std::string& name) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  std::vector<control::UploadFile> files;
  for (const JobInput& input : job.inputs.at(name)) {
    GDF_ASSIGN_OR_RETURN(control::UploadFile file, OpenForUpload(session.environment().files, input));
    files.push_back(std::move(file));
  }
  const uint64_t total = job.BytesOf(name);
  LiveArea area(session.environment().err);
  const bool show = session.environment().err_is_terminal && !session.quiet();
  const auto progress = [&](uint64_t sent) {
    const Style style = session.err_style();
    const double share = total > 0 ? static_cast<double>(sent) / static_cast<double>(total) : 1;
    area.Draw({Truncate(absl::StrCat("sending ", name, "  ", RenderBar(share, 30, style), "  ", HumanBytes(sent), " of ",
                                     HumanBytes(total)),
                        style.width, style)});
  };
  absl::StatusOr<control::UploadResult> result =
      client->Upload(name, std::move(files), show ? progress : std::function<void(uint64_t)>());
  if (show) area.Clear();
  if (!result.ok()) return Annotate(result.status(), "sending " + name);
  return result->manifest;
}

// The job of a command's options; what is odd about it is told.
absl::StatusOr<JobFile> LoadAndWarn(Session& session, const JobFileOptions& options) {
  GDF_ASSIGN_OR_RETURN(JobFile job, LoadJobFile(session.environment().files, options));
  for (const std::string& warning : config::Warnings(job.spec)) session.SayWarning(warning);
  return job;
}

absl::StatusOr<ExitCode> Submit(Session& session, const SubmitOptions& options) {
  GDF_ASSIGN_OR_RETURN(const absl::Duration timeout, ParseTimeout(options.timeout));
  GDF_ASSIGN_OR_RETURN(const JobFile job, LoadAndWarn(session, options.file));
  GDF_RETURN_IF_ERROR(CheckData(session.environment().files, job));
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  control::SubmitRequest request;
  for (const auto& [name, inputs] : job.inputs) {
    GDF_ASSIGN_OR_RETURN(request.inputs[name], Upload(session, job, name));
  }
  request.spec_yaml = job.yaml;
  request.submit_token = options.token;
  request.hf_config_json = job.hf_config_json;
  GDF_ASSIGN_OR_RETURN(const control::SubmitResult result, client->Submit(request));
  if (!result.refused.empty()) {
    if (session.json()) session.PrintJson({{"job", nullptr}, {"refused", result.refused}, {"warnings", config::Warnings(job.spec)}});
    session.SayError(absl::StrCat(job.spec.name, " cannot be placed: ", result.refused));
    return kExitNotPlaceable;
  }
  if (session.json() && !options.wait) {
    session.PrintJson({{"job", result.job}, {"existed", result.existed}, {"warnings", config::Warnings(job.spec)}});
  } else if (!session.json()) {
    session.Print(result.job + "\n");
  }
  if (result.existed) session.Say(absl::StrCat("this submit token was used before, for ", result.job));
  if (!options.wait) {
    session.Say(absl::StrCat("follow it with: ", session.CommandText("job wait " + result.job)));
    return kExitOk;
  }
  return WaitForJob(session, result.job, timeout);
}

// Problems with their places; else the one that stands nowhere in job.yaml, such as that of a data file.
Json ErrorsToJson(const config::Problems& problems, const absl::Status& status) {
  const auto place = [](int number) { return number > 0 ? Json(number) : Json(nullptr); };
  Json errors = Json::array();
  for (const config::Problems::Problem& problem : problems.Sorted()) {
    errors.push_back({{"file", problems.OriginOf(problem.at)},
                      {"line", place(problem.at.line)},
                      {"column", place(problem.at.column)},
                      {"message", problem.message}});
  }
  if (errors.empty()) {
    errors.push_back({{"file", nullptr}, {"line", nullptr}, {"column", nullptr}, {"message", ToStd(status.message())}});
  }
  return errors;
}

absl::StatusOr<ExitCode> Validate(Session& session, const JobFileOptions& options) {
  FileSystem& files = session.environment().files;
  config::Problems problems(options.path);
  const absl::StatusOr<JobFile> loaded = LoadJobFile(files, options, &problems);
  if (const absl::Status valid = loaded.ok() ? CheckData(files, *loaded) : loaded.status(); !valid.ok()) {
    if (session.json()) session.PrintJson({{"valid", false}, {"errors", ErrorsToJson(problems, valid)}});
    return valid;
  }
  const JobFile& job = *loaded;
  const std::vector<std::string> warnings = config::Warnings(job.spec);
  for (const std::string& warning : warnings) session.SayWarning(warning);
  size_t count = 0;
  for (const auto& [name, inputs] : job.inputs) count += inputs.size();
  if (session.json()) {
    Json inputs = Json::object();
    for (const auto& [name, list] : job.inputs) inputs[name] = {{"files", list.size()}, {"bytes", job.BytesOf(name)}};
    session.PrintJson({{"valid", true}, {"name", job.spec.name}, {"rounds", config::NumRounds(job.spec)}, {"inputs", inputs}, {"warnings", warnings}});
  } else {
    session.Say(absl::StrCat(options.path, " is valid: ", job.spec.name, ", ", job.spec.train.steps, " steps in ",
                             config::NumRounds(job.spec), " rounds, ", Counted(count, "file"), " of ",
                             HumanBytes(job.TotalBytes())));
  }
  return kExitOk;
}

std::string Sum(const std::vector<std::pair<std::string, uint64_t>>& items) {
  uint64_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [name, bytes] : items) {
    total += bytes;
    parts.push_back(absl::StrCat(HumanBytes(bytes), " ", Printable(name)));
  }
  return absl::StrCat(HumanBytes(total), "\n", absl::StrJoin(parts, "\n"));
}

absl::StatusOr<ExitCode> Plan(Session& session, const JobFileOptions& options) {
  GDF_ASSIGN_OR_RETURN(const JobFile job, LoadAndWarn(session, options));
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::JobPlan plan, client->Plan({job.yaml, job.BytesOf("data") + job.BytesOf("valid"), job.hf_config_json}));
  if (session.json()) {
    Json object = ToJson(plan);
    object["warnings"] = config::Warnings(job.spec);
    session.PrintJson(object);
    return plan.placeable ? kExitOk : kExitNotPlaceable;
  }
  std::vector<std::pair<std::string, std::string>> fields;
  if (plan.placeable) {
    fields.emplace_back("nodes", Printable(absl::StrJoin(plan.nodes, ", ")));
    fields.emplace_back("lead", Printable(plan.lead));
  }
  fields.emplace_back("parameters", HumanCount(static_cast<double>(plan.parameters)));
  fields.emplace_back("rounds", absl::StrCat(plan.rounds));
  fields.emplace_back("each node sends", absl::StrCat(HumanBytes(plan.bytes_per_round_per_node), " a round, and receives as much"));
  if (!plan.host_memory.empty()) fields.emplace_back("host memory", Sum(plan.host_memory));
  if (!plan.gpu_memory.empty()) fields.emplace_back("memory of a GPU", Sum(plan.gpu_memory));
  fields.emplace_back("time", plan.measured_in.empty()
                                  ? "unknown until a job of a known model has trained on this network"
                                  : absl::StrCat("about ", HumanDuration(plan.duration), " of steps and exchanges, at the speed of ",
                                                 Printable(plan.measured_in)));
  session.Print(RenderFields(fields, session.out_style()));
  if (plan.placeable) return kExitOk;
  session.SayError(absl::StrCat(job.spec.name, " cannot be placed: ", plan.reason));
  return kExitNotPlaceable;
}

void AddFileOptions(CLI::App* command, JobFileOptions* options) {
  command->add_option("JOB.YAML", options->path, "The job (docs/job-spec.md)")->required();
  command->add_option("--text", options->text, "Texts to train on instead of data.text: files, folders, globs");
  command->add_option("--set", options->overrides, "KEY=VALUE: another value for a key, such as train.steps=400")
      ->take_all()->expected(1)->allow_extra_args(false);
}

}  // namespace

void AddSubmitCommands(CLI::App& app, Command& chosen) {
  CLI::App* submit = app.add_subcommand("submit", "Hand a job to the network");
  auto options = std::make_shared<SubmitOptions>();
  AddFileOptions(submit, &options->file);
  submit->add_flag("--wait", options->wait, "Show progress until the job ends, and exit by its verdict");
  submit->add_option("--submit-token", options->token, "Any text: submitting again with it gives the first call's job");
  submit->add_option("--timeout", options->timeout, "Longest time to wait, such as 30m; the job goes on after it");
  submit->callback([&chosen, options] { chosen = [options](Session& s) { return Submit(s, *options); }; });

  auto file = std::make_shared<JobFileOptions>();
  CLI::App* validate = app.add_subcommand("validate", "Check a job and its files without a daemon");
  AddFileOptions(validate, file.get());
  validate->callback([&chosen, file] { chosen = [file](Session& s) { return Validate(s, *file); }; });
  CLI::App* plan = app.add_subcommand("plan", "Where a job would run and what it would cost");
  AddFileOptions(plan, file.get());
  plan->callback([&chosen, file] { chosen = [file](Session& s) { return Plan(s, *file); }; });
}

}  // namespace gdf::ctl
