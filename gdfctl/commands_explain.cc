#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfctl/commands.h"
#include "gdfctl/render/text.h"

namespace gdf::ctl {
namespace {

absl::StatusOr<ExitCode> Explain(Session& session, const std::string& what) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::Explanation explained, client->Explain(what));
  if (session.json()) {
    session.PrintJson({{"what", what},
                       {"name", explained.name},
                       {"answer", explained.answer},
                       {"because", explained.because},
                       {"advice", explained.advice}});
    return kExitOk;
  }
  std::string text = absl::StrCat(what, explained.name == what ? "" : " (" + Printable(explained.name) + ")", ": ",
                                  Printable(explained.answer), "\n");
  for (const std::string& because : explained.because) absl::StrAppend(&text, "  - ", Printable(because), "\n");
  for (const std::string& advice : explained.advice) absl::StrAppend(&text, "  > ", Printable(advice), "\n");
  session.Print(text);
  return kExitOk;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Command& chosen) {
  CLI::App* explain = app.add_subcommand("explain", "Why a job or a node does what it does: waits, is slow, was left out, went back");
  auto what = std::make_shared<std::string>();
  explain->add_option("WHAT", *what, "A job such as j17, or a node")->required();
  explain->callback([&chosen, what] { chosen = [what](Session& s) { return Explain(s, *what); }; });
}

}  // namespace gdf::ctl
