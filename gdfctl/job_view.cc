#include "gdfctl/job_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "gdfctl/render/bar.h"
#include "gdfctl/render/curve.h"

namespace gdf::ctl {
namespace {

constexpr int kMinBarColumns = 10;
constexpr int kMaxBarColumns = 40;
constexpr uint64_t kLogLines = 20;  // of the whole job, beside one a minute
constexpr absl::Duration kLogEvery = absl::Minutes(1);
constexpr int kCurveColumns = 76;

// "loss 2.10", ... of the newest round: what both forms of progress show.
std::vector<std::string> Figures(const JobView& view) {
  std::vector<std::string> figures;
  if (view.rounds().empty()) return figures;
  const control::Round& last = view.rounds().rbegin()->second;
  figures.push_back(absl::StrCat("loss ", FormatLoss(last.loss)));
  if (view.validation_loss()) figures.push_back(absl::StrCat("validation ", FormatLoss(view.validation_loss())));
  figures.push_back(absl::StrCat(HumanCount(last.tokens_per_sec), " tokens/s"));
  figures.push_back(absl::StrCat(HumanBytes(view.bytes_sent()), " sent"));
  return figures;
}

// "4 min 10 s left"; empty before the first round and after the last, when only the end is still to be told.
std::string TimeLeftText(const JobView& view, absl::Time now) {
  if (view.ended() || view.rounds().empty() || view.rounds_done() >= view.job().rounds_total) return "";
  const std::optional<absl::Duration> left = view.TimeLeft(now);
  return left ? HumanDuration(*left) + " left" : "time left unknown";
}

std::string Short(const std::string& digest) { return Printable(digest).substr(0, 12); }

Color ColorOf(control::JobPhase phase) {
  switch (phase) {
    case control::JobPhase::kSucceeded: return Color::kGreen;
    case control::JobPhase::kFailed: return Color::kRed;
    case control::JobPhase::kCancelled: return Color::kYellow;
    default: return Color::kNone;
  }
}

}  // namespace

void JobView::Update(const control::JobUpdate& update) {
  if (update.round) rounds_[update.round->round] = *update.round;
  if (update.job) job_ = *update.job;
  if (update.finished) job_ = *update.finished;
}

uint64_t JobView::rounds_done() const { return rounds_.empty() ? job_.rounds_done : rounds_.rbegin()->first + 1; }

double JobView::share_done() const {
  if (job_.rounds_total == 0) return 0;
  return std::min(1.0, static_cast<double>(rounds_done()) / static_cast<double>(job_.rounds_total));
}

uint64_t JobView::bytes_sent() const {
  uint64_t bytes = 0;
  for (const auto& [number, round] : rounds_) bytes += round.bytes_sent;
  return bytes;
}

std::optional<double> JobView::validation_loss() const {
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    if (round->second.validation_loss) return round->second.validation_loss;
  }
  return std::nullopt;
}

std::optional<absl::Duration> JobView::TimeLeft(absl::Time now) const {
  if (rounds_.size() < 2) return std::nullopt;
  const auto& [first, first_round] = *rounds_.begin();
  const auto& [last, last_round] = *rounds_.rbegin();
  if (job_.rounds_total < last + 1 || last_round.at <= first_round.at) return std::nullopt;
  const absl::Duration pace = (last_round.at - first_round.at) / static_cast<int64_t>(last - first);
  const absl::Duration left = pace * static_cast<int64_t>(job_.rounds_total - (last + 1)) - (now - last_round.at);
  if (left < absl::ZeroDuration()) return std::nullopt;  // it is slower than it was
  return left;
}

std::vector<std::string> RenderProgress(const JobView& view, absl::Time now, const Style& style) {
  const control::Job& job = view.job();
  std::string counts = absl::StrFormat("round %d/%d  %.0f %%", view.rounds_done(), job.rounds_total, 100 * view.share_done());
  if (const std::string left = TimeLeftText(view, now); !left.empty()) counts += "  " + left;
  const int room = style.width - Columns(counts) - 4;  // two spaces before and after the bar
  const std::string name = Truncate(Printable(job.name) + " " + job.id, room - kMinBarColumns, style);
  const int bar = std::clamp(room - Columns(name), kMinBarColumns, kMaxBarColumns);
  std::string figures = absl::StrJoin(Figures(view), "   ");
  if (figures.empty()) {
    figures = job.phase == control::JobPhase::kPending
                  ? absl::StrCat("waiting", job.reason.empty() ? "" : ": ", Printable(job.reason))
                  : absl::StrCat("first round on ", Counted(job.members.size(), "node"));
  }
  const std::string line = absl::StrCat(Paint(style, Color::kBold, name), "  ", RenderBar(view.share_done(), bar, style), "  ", counts);
  return {Truncate(line, style.width, style), Truncate(figures, style.width, style)};
}

std::string RenderProgressLine(const JobView& view, absl::Time now) {
  const control::Job& job = view.job();
  std::vector<std::string> parts = {absl::StrCat(job.id, " ", control::ToString(job.phase)),
                                    absl::StrCat("round ", view.rounds_done(), "/", job.rounds_total)};
  for (std::string& figure : Figures(view)) parts.push_back(std::move(figure));
  if (const std::string left = TimeLeftText(view, now); !left.empty()) parts.push_back(left);
  if (job.phase == control::JobPhase::kPending && !job.reason.empty()) parts.push_back(Printable(job.reason));
  return absl::StrJoin(parts, ", ");
}

std::optional<std::string> ProgressLog::Next(const JobView& view, absl::Time now) {
  const std::string state = absl::StrCat(control::ToString(view.job().phase), ": ", view.job().reason);
  const uint64_t done = view.rounds_done();
  const bool further =
      done > rounds_done_ && ((done - rounds_done_) * kLogLines >= view.job().rounds_total || now - at_ >= kLogEvery);
  if (state == state_ && !further) return std::nullopt;
  state_ = state;
  rounds_done_ = done;
  at_ = now;
  return RenderProgressLine(view, now);
}

std::string RenderLastProgress(const control::Job& job, absl::Time now) {
  if (job.phase != control::JobPhase::kRunning) return "";
  if (job.last_round) return absl::StrCat("last round ", FormatAge(job.last_round->at, now));
  return absl::StrCat("no round yet, began ", FormatAge(job.started, now));
}

std::string RenderRound(const control::Round& round) {
  std::string line = absl::StrCat("round ", round.round + 1, ": loss ", FormatLoss(round.loss));
  if (round.validation_loss) absl::StrAppend(&line, ", validation ", FormatLoss(round.validation_loss));
  absl::StrAppend(&line, ", ", HumanCount(round.tokens_per_sec), " tokens/s, ", HumanBytes(round.bytes_sent), " sent, ",
                  Counted(round.members, "member"), ", ");
  absl::StrAppendFormat(&line, "compute %.1f s, compress %.2f s, exchange %.2f s, aggregate %.2f s, digest %s",
                        absl::ToDoubleSeconds(round.compute), absl::ToDoubleSeconds(round.compress),
                        absl::ToDoubleSeconds(round.exchange), absl::ToDoubleSeconds(round.aggregate),
                        Short(round.digest));
  if (!round.fragment_digest.empty()) absl::StrAppend(&line, ", of its fragment ", Short(round.fragment_digest));
  return line;
}

std::string RenderLossCurve(const JobView& view, const Style& style) {
  Curve curve;
  for (const auto& [number, round] : view.rounds()) {
    const double x = static_cast<double>(number + 1);
    if (round.loss) curve.line.emplace_back(x, *round.loss);
    if (round.validation_loss) curve.points.emplace_back(x, *round.validation_loss);
  }
  curve.line_name = "training loss";
  curve.points_name = "validation loss";
  curve.x_name = "round";
  Style narrow = style;
  narrow.width = std::min(style.width, kCurveColumns);
  return RenderCurve(curve, narrow);
}

std::string RenderVerdict(const JobView& view, const Style& style) {
  const control::Job& job = view.job();
  std::string text = absl::StrCat(job.id, " ", Paint(style, ColorOf(job.phase), control::ToString(job.phase)));
  if (job.ended != absl::InfinitePast() && job.started != absl::InfinitePast()) {
    absl::StrAppend(&text, " after ", HumanDuration(job.ended - job.started));
  }
  absl::StrAppend(&text, ": ", Counted(job.rounds_done, "round"));
  if (view.validation_loss()) absl::StrAppend(&text, ", validation loss ", FormatLoss(view.validation_loss()));
  if (!view.rounds().empty()) absl::StrAppend(&text, ", ", HumanBytes(view.bytes_sent()), " sent by all nodes");
  if (!job.reason.empty()) absl::StrAppend(&text, "\n  ", Printable(job.reason));
  return text;
}

}  // namespace gdf::ctl
