// What people see; expected texts are drawn by hand.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "gdfctl/exit_code.h"
#include "gdfctl/job_view.h"
#include "gdfctl/render/bar.h"
#include "gdfctl/render/curve.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

constexpr Style kAscii{false, false, 80};
constexpr Style kUnicode{false, true, 80};

TEST_CASE("Every error has its published exit code") {
  const std::pair<absl::StatusCode, int> table[] = {
      {absl::StatusCode::kOk, 0},                 {absl::StatusCode::kUnavailable, 2},
      {absl::StatusCode::kPermissionDenied, 2},   {absl::StatusCode::kUnauthenticated, 2},
      {absl::StatusCode::kDeadlineExceeded, 3},   {absl::StatusCode::kInvalidArgument, 4},
      {absl::StatusCode::kNotFound, 4},           {absl::StatusCode::kAlreadyExists, 4},
      {absl::StatusCode::kFailedPrecondition, 4}, {absl::StatusCode::kOutOfRange, 4},
      {absl::StatusCode::kResourceExhausted, 2},  {absl::StatusCode::kCancelled, 7},
      {absl::StatusCode::kInternal, 5},           {absl::StatusCode::kDataLoss, 5},
      {absl::StatusCode::kUnimplemented, 5},      {absl::StatusCode::kUnknown, 5},
      {absl::StatusCode::kAborted, 5}};
  for (const auto& [code, expected] : table) {
    CAPTURE(static_cast<int>(code));
    CHECK(ExitCodeOf(code) == expected);
  }
  CHECK(ExitCodeOf(control::JobPhase::kSucceeded) == 0);
  CHECK(ExitCodeOf(control::JobPhase::kFailed) == 1);
  CHECK(ExitCodeOf(control::JobPhase::kCancelled) == 7);
}

TEST_CASE("Control characters from elsewhere cannot reach the terminal") {
  CHECK(Printable("a\x1b[2Jb\x7f\tc\n") == "a?[2Jb?\tc\n");
  CHECK(Printable("\xC2\x9B" "31m") == "?31m");  // C1: one-character CSI
  CHECK(Printable("é€") == "é€");
}

TEST_CASE("Columns count characters, not bytes or colours") {
  CHECK(Columns("é€") == 2);
  CHECK(Columns("\x1b[31mred\x1b[0m") == 3);
  CHECK(Truncate("hello", 5, kAscii) == "hello");
  CHECK(Truncate("hello", 3, kUnicode) == "he…");
  CHECK(Truncate("hello", 3, kAscii) == "he.");
  CHECK(Truncate("\x1b[31mhello\x1b[0m", 3, kAscii) == "\x1b[31mhe.\x1b[0m");
  CHECK(PadLeft("é", 3) == "  é");
}

TEST_CASE("Numbers for people") {
  CHECK(HumanCount(999) == "999");
  CHECK(HumanCount(12345) == "12.3k");
  CHECK(HumanCount(999'960) == "1.0M");
  CHECK(FormatLoss(1.88571) == "1.8857");
  CHECK(FormatLoss(std::nullopt) == "-");
  CHECK(UtcText(absl::FromUnixSeconds(0)) == "1970-01-01T00:00:00Z");
}

TEST_CASE("A table is aligned, and goes on in further lines rather than losing columns") {
  const Table table{{{"NAME"}, {"N", true}, {"TEXT"}}, {{"a", "10", "some words"}, {"long", "5", "x"}}};
  CHECK(RenderTable(table, kAscii) ==
        "NAME   N  TEXT\n"
        "a     10  some words\n"
        "long   5  x\n");
  CHECK(RenderTable(table, {false, false, 14}) ==
        "NAME   N\n"
        "    TEXT\n"
        "a     10\n"
        "    some words\n"
        "long   5\n"
        "    x\n");
  CHECK(RenderTable(table, {false, false, 13}) ==
        "NAME   N\n"
        "    TEXT\n"
        "a     10\n"
        "    some wor.\n"
        "long   5\n"
        "    x\n");
  CHECK(RenderTable(table, {false, false, 13, /*wrap=*/false}) == RenderTable(table, kAscii));
  CHECK(RenderTable({{{"A"}, {"B"}, {"C"}}, {{"1", "", "3"}, {"1", "", "long"}}}, {false, false, 6}) ==
        "A\n"
        "    C\n"
        "1\n"
        "    3\n"
        "1\n"
        "    l.\n");
  CHECK(RenderFields({{"a", "1"}, {"name", "x\ny"}}, kAscii) ==
        "a     1\n"
        "name  x\n"
        "      y\n");
}

TEST_CASE("A bar fills by eighths") {
  CHECK(RenderBar(0, 4, kUnicode) == "░░░░");
  CHECK(RenderBar(1, 4, kUnicode) == "████");
  CHECK(RenderBar(0.40625, 4, kUnicode) == "█▋░░");  // 1.625 blocks
  CHECK(RenderBar(0.5, 4, kAscii) == "##--");
  CHECK(RenderBar(7, 2, kAscii) == "##");
  CHECK(RenderBar(0.0 / 0.0, 2, kAscii) == "--");
}

TEST_CASE("A falling line in asterisks") {
  const Curve curve{{{1, 3}, {3, 1}}, {}, "loss", "", "round", 3};
  CHECK(RenderCurve(curve, {false, false, 9 + 3}) ==  // kMinPlotColumns wide all the same
        "          ** loss\n"
        "      3 +***\n"  // y = 2 - 2x/9 dots, rounded
        "      2 +   ****\n"
        "      1 +       ***\n"
        "        +----------\n"
        "         1 round  3\n");
}

TEST_CASE("Points lie over the line, and braille has two by four dots a character") {
  const Curve curve{{{0, 0}, {1, 0}}, {{1, 1}}, "a", "b", "x", 2};
  const std::string drawn = RenderCurve(curve, {false, true, 9 + 10});
  CHECK(drawn.find("⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀\n") != std::string::npos);  // the lowest two dots of each
  CHECK(drawn.find("┤         o\n") != std::string::npos);
}

TEST_CASE("Nothing to draw gives no plot, and values that are not finite are left out") {
  CHECK(RenderCurve({}, kAscii).empty());
  CHECK(RenderCurve({{{1, 0.0 / 0.0}}, {}, "a", "b", "x", 3}, kAscii).empty());
  CHECK(!RenderCurve({{{1, 2}, {2, 1.0 / 0.0}}, {}, "a", "b", "x", 3}, kAscii).empty());
}

control::JobUpdate Round(uint64_t number, double loss, double at_seconds, uint64_t bytes) {
  control::Round round;
  round.round = number;
  round.loss = loss;
  round.at = absl::UnixEpoch() + absl::Seconds(at_seconds);
  round.bytes_sent = bytes;
  round.tokens_per_sec = 1000;
  return {.round = round};
}

TEST_CASE("A round shows its digest, and that of its fragment if it exchanged one") {
  control::Round round;
  round.digest = std::string(12, 'a') + std::string(52, 'b');
  CHECK(absl::EndsWith(RenderRound(round), ", digest aaaaaaaaaaaa"));
  round.fragment_digest = std::string(12, 'c') + std::string(52, 'd');
  CHECK(absl::EndsWith(RenderRound(round), ", digest aaaaaaaaaaaa, of its fragment cccccccccccc"));
}

TEST_CASE("Since when a running job got no further is told") {
  control::Job job;
  job.phase = control::JobPhase::kRunning;
  job.started = absl::UnixEpoch() + absl::Seconds(10);
  const absl::Time now = absl::UnixEpoch() + absl::Minutes(5);
  CHECK(RenderLastProgress(job, now) == "no round yet, began 4 min 50 s ago");
  job.last_round.emplace();
  job.last_round->at = absl::UnixEpoch() + absl::Minutes(2);
  CHECK(RenderLastProgress(job, now) == "last round 3 min 0 s ago");
  job.phase = control::JobPhase::kSucceeded;
  CHECK(RenderLastProgress(job, now).empty());
}

TEST_CASE("The time left follows from the pace of the rounds") {
  JobView view;
  control::Job job;
  job.id = "j1";
  job.name = "demo";
  job.rounds_total = 10;
  job.phase = control::JobPhase::kRunning;
  view.Update({.job = job});
  view.Update(Round(0, 3, 100, 1024));
  CHECK(!view.TimeLeft(absl::UnixEpoch() + absl::Seconds(100)));
  view.Update(Round(1, 2, 110, 1024));
  view.Update(Round(1, 2, 110, 1024));  // told twice
  // 8 rounds of 10 s, 4 s of which have passed.
  const absl::Time now = absl::UnixEpoch() + absl::Seconds(114);
  CHECK(view.TimeLeft(now) == absl::Seconds(76));
  // Longer than 10 s for each of them: the pace tells no more.
  CHECK_FALSE(view.TimeLeft(absl::UnixEpoch() + absl::Seconds(191)));
  CHECK(absl::StrContains(RenderProgressLine(view, absl::UnixEpoch() + absl::Minutes(9)), "time left unknown"));
  CHECK(view.bytes_sent() == 2048);
  CHECK(RenderProgressLine(view, now) == "j1 running, round 2/10, loss 2.0000, 1.0k tokens/s, 2.0 KiB sent, 1 min 16 s left");
  std::vector<std::string> block = RenderProgress(view, now, {false, false, 60});
  REQUIRE(block.size() == 2);
  CHECK(block[0] == "demo j1  ###-------------  round 2/10  20 %  1 min 16 s left");  // 60 columns
  CHECK(block[1] == "loss 2.0000   1.0k tokens/s   2.0 KiB sent");
  // A long name gives way, the figures stay.
  job.name = std::string(63, 'n');
  view.Update({.job = job});
  block = RenderProgress(view, now, {false, false, 80});
  CHECK(block[0] == std::string(32, 'n') + ".  ##--------  round 2/10  20 %  1 min 16 s left");  // 80 columns
  // After the last round only the end is still to be told.
  view.Update(Round(9, 1, 190, 1024));
  CHECK(absl::StrContains(RenderProgressLine(view, absl::UnixEpoch() + absl::Seconds(191)), "sent"));
  CHECK_FALSE(absl::StrContains(RenderProgressLine(view, absl::UnixEpoch() + absl::Seconds(191)), "left"));
}

TEST_CASE("A log of a job gets a line where something has moved") {
  JobView view;
  ProgressLog log;
  control::Job job;
  job.id = "j1";
  job.phase = control::JobPhase::kPending;
  job.reason = "no node is free";
  const auto at = [](int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); };
  view.Update({.job = job});
  CHECK(log.Next(view, at(0)) == "j1 pending, round 0/0, no node is free");
  CHECK(!log.Next(view, at(3600)));
  job.phase = control::JobPhase::kRunning;
  job.reason = "";
  job.rounds_total = 100;
  view.Update({.job = job});
  CHECK(log.Next(view, at(3601)) == "j1 running, round 0/100");
  const auto logged = [&](int round, int seconds) {
    view.Update(Round(round - 1, 2, seconds, 0));
    return log.Next(view, at(seconds)).has_value();
  };
  CHECK(!logged(1, 3602));
  CHECK(!logged(4, 3605));
  CHECK(logged(5, 3606));    // a twentieth
  CHECK(!logged(5, 3700));   // no new round
  CHECK(!logged(6, 3665));   // 59 s after the last line
  CHECK(logged(7, 3666));    // a minute
  CHECK(!logged(11, 3667));  // 4 % further
  CHECK(logged(12, 3668));
}

}  // namespace
}  // namespace gdf::ctl
