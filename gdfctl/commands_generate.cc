#include <memory>

#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "gdfctl/commands.h"

namespace gdf::ctl {
namespace {

absl::StatusOr<ExitCode> Generate(Session& session, const control::GenerateRequest& request) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  std::string text;
  GDF_ASSIGN_OR_RETURN(const control::GenerateResult result, client->Generate(request, [&](const std::string& piece) {
    text += piece;
    // A model can have learnt what moves a cursor; files get its bytes as they are.
    if (!session.json()) session.Print(session.environment().out_is_terminal ? Printable(piece) : piece);
    return session.output();
  }));
  const double seconds = absl::ToDoubleSeconds(result.duration);
  if (session.json()) {
    session.PrintJson({{"text", text}, {"tokens", result.tokens}, {"seconds", seconds}});
  } else {
    session.Print("\n");
  }
  session.Say(absl::StrFormat("%d tokens in %.1f s, %.0f tokens/s", result.tokens, seconds,
                              seconds > 0 ? result.tokens / seconds : 0));
  return kExitOk;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Command& chosen) {
  CLI::App* generate = app.add_subcommand("generate", "Sample from a job's newest parameters, on this node");
  auto request = std::make_shared<control::GenerateRequest>();
  generate->add_option("JOB", request->job, "Such as j17")->required();
  generate->add_option("--prompt", request->prompt, "Text to go on from")->required();
  generate->add_option("--max-tokens", request->max_tokens, "How many")->check(CLI::Range(1, 1000000))->capture_default_str();
  generate->add_option("--temperature", request->temperature, "0: always the likeliest")->check(CLI::Range(0.0, 100.0))->capture_default_str();
  generate->add_option("--top-k", request->top_k, "Only among the K likeliest; 0: all")->capture_default_str();
  generate->add_option("--seed", request->seed, "The same seed gives the same text")->capture_default_str();
  generate->callback([&chosen, request] { chosen = [request](Session& s) { return Generate(s, *request); }; });
}

}  // namespace gdf::ctl
