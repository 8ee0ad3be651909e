#include "gdfctl/job_wait.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "gdfctl/job_follower.h"
#include "gdfctl/job_view.h"
#include "gdfctl/json_values.h"
#include "gdfctl/live_area.h"

namespace gdf::ctl {
namespace {

constexpr absl::Duration kRedrawEvery = absl::Seconds(1);

// Progress as it comes: drawn over on a terminal, else a line now and then.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(Session& session) : session_(session), area_(session.environment().err) {}

  void Show(const JobView& view) {
    if (session_.quiet() || view.job().id.empty()) return;
    if (terminal()) return area_.Draw(RenderProgress(view, session_.Now(), session_.err_style()));
    if (const std::optional<std::string> line = log_.Next(view, session_.Now())) session_.Say(*line);
  }
  // A line that stays.
  void Say(const std::string& text) {
    Clear();
    session_.Say(text);
  }
  void Clear() {
    if (terminal() && !session_.quiet()) area_.Clear();
  }

 private:
  bool terminal() const { return session_.environment().err_is_terminal; }

  Session& session_;
  LiveArea area_;
  ProgressLog log_;
};

void ShowEvent(ProgressDisplay& display, const control::Event& event, const Style& style) {
  if (event.severity == "info") return;
  const Color color = event.severity == "error" ? Color::kRed : Color::kYellow;
  display.Say(absl::StrCat(Paint(style, color, Printable(event.severity)), ": ", Printable(event.text)));
}

}  // namespace

absl::StatusOr<ExitCode> WaitForJob(Session& session, const std::string& job, absl::Duration timeout) {
  absl::StatusOr<control::Client*> client = session.client();
  if (!client.ok()) return client.status();
  const absl::Duration deadline = session.environment().clock.Monotonic() + timeout;
  session.environment().set_interrupt_notice(
      absl::StrCat(job, " goes on; look at it with: ", session.CommandText("job wait " + job),
                   "    end it with: ", session.CommandText("job cancel " + job)));
  ProgressDisplay display(session);
  JobView view;
  JobFollower follower(**client, job);
  while (true) {
    const absl::Duration left = deadline - session.environment().clock.Monotonic();
    JobFollower::Item item = follower.Next(std::clamp(left, absl::ZeroDuration(), kRedrawEvery));
    if (item.end) {
      display.Clear();
      if (!item.end->ok()) return *item.end;
      break;
    }
    if (item.reconnecting) display.Say("gdfd went away; waiting for it to come back");
    if (item.update) {
      view.Update(*item.update);
      if (item.update->event) ShowEvent(display, *item.update->event, session.err_style());
    }
    display.Show(view);
    if (left <= absl::ZeroDuration()) {
      display.Clear();
      return absl::DeadlineExceededError(absl::StrCat(job, " has not ended within ", HumanDuration(timeout), "; it goes on"));
    }
  }
  session.environment().set_interrupt_notice("");
  const Style style = session.err_style();
  session.Say(RenderLossCurve(view, style) + RenderVerdict(view, style));
  if (session.json()) session.PrintJson({{"job", ToJson(view.job())}});
  return ExitCodeOf(view.job().phase);
}

}  // namespace gdf::ctl
