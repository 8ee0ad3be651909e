#include "core/config/job_advice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gdf::config {
namespace {

constexpr int64_t kLeastForSites = 3;  // nodes: two at one site and one elsewhere

// Codecs that leave most of a delta out of each round: without feedback that part is never sent. They go whole to every
// node, so that there is no sum of a site.
bool LeavesOut(CodecKind kind) {
  return kind == CodecKind::kSign || kind == CodecKind::kTopK2 || kind == CodecKind::kTopK8 || kind == CodecKind::kDct;
}

void AdviseErrorFeedback(const RoundsSpec& rounds, std::vector<std::string>* warnings) {
  if (rounds.error_feedback) return;
  const auto warn = [&](const std::string& codec) {
    warnings->push_back(absl::StrCat("rounds.error_feedback is false, and what codec ", codec,
                                     " leaves out of a round is lost without it: remove the key, or expect a worse model"));
  };
  for (const CodecSpec& codec : rounds.codecs) {
    if (LeavesOut(codec.kind)) warn(codec.ToString());
  }
  if (rounds.rank > 0) warn(PowerSgdName(rounds.rank));
}

// Why no exchange of the job can go by the sites that it names; empty: one can.
std::string WhyNotBySites(const JobSpec& spec) {
  const NodesSpec& nodes = spec.nodes;
  const auto leaves_out = [](const CodecSpec& codec) { return LeavesOut(codec.kind); };
  if (std::all_of(spec.rounds.codecs.begin(), spec.rounds.codecs.end(), leaves_out)) {
    return absl::StrCat("codec ", spec.rounds.codecs[0].ToString(), " goes whole to every node");
  }
  if (nodes.max < kLeastForSites) return absl::StrCat("the job has at most ", nodes.max, " of the ", kLeastForSites, " nodes that it takes");
  const auto alone = [](const std::vector<std::string>& site) { return site.size() < 2; };
  if (std::all_of(nodes.sites.begin(), nodes.sites.end(), alone)) return "none has two nodes";
  const auto has_all = [&](const std::vector<std::string>& site) {
    return std::all_of(nodes.where.begin(), nodes.where.end(), [&](const std::string& node) {
      return std::find(site.begin(), site.end(), node) != site.end();
    });
  };
  const bool one = !nodes.where.empty() && std::any_of(nodes.sites.begin(), nodes.sites.end(), has_all);
  return one ? "one has all the nodes of nodes.where" : "";
}

void AdviseSites(const JobSpec& spec, std::vector<std::string>* warnings) {
  if (spec.nodes.site_source != SiteSource::kNamed) return;
  const std::string why = WhyNotBySites(spec);
  if (!why.empty()) warnings->push_back(absl::StrCat("nodes.sites has no effect: ", why));
}

}  // namespace

std::vector<std::string> Warnings(const JobSpec& spec) {
  std::vector<std::string> warnings;
  AdviseErrorFeedback(spec.rounds, &warnings);
  AdviseSites(spec, &warnings);
  return warnings;
}

}  // namespace gdf::config
