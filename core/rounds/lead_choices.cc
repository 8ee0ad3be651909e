// What a lead makes of what members tell of their links and processors: the codec, the shards and the sites of the
// rounds that follow.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/exchange/routes.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {

void RoundLead::Learn(const Trained& trained, const Combined& combined) {
  for (const auto& [node, report] : trained.reports) {
    if (report.refused.empty()) member_.step_shares().Learn(node, report.steps, report.train_seconds);
  }
  for (const auto& [node, prepared] : combined.prepared) {
    const auto report = trained.reports.find(node);
    const double packing = report == trained.reports.end() ? 0 : report->second.compress_seconds;
    member_.sites().Learn(node, prepared.link.near);
    member_.tuner().Learn(node, env_.spec.rounds.codecs[combined.receipt.codec], absl::Seconds(packing), prepared.link);
    Log(LogLevel::kDebug, "link",
        {{"tag", combined.receipt.tag.ToString()}, {"node", node.Short()},
         {"up", HumanBytes(prepared.link.up_bytes_per_sec)}, {"down", HumanBytes(prepared.link.down_bytes_per_sec)},
         {"rtt", HumanDuration(prepared.link.rtt)}});
  }
}

std::vector<uint32_t> RoundLead::NamedSites(absl::Span<const NodeId> members) const {
  const std::vector<std::vector<std::string>>& named = env_.spec.nodes.sites;
  std::vector<uint32_t> sites;
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string name = env_.coordinator.NameOf(members[i]), id = members[i].ToString();
    const auto site = std::find_if(named.begin(), named.end(), [&](const std::vector<std::string>& nodes) {
      return std::find(nodes.begin(), nodes.end(), name) != nodes.end() || std::find(nodes.begin(), nodes.end(), id) != nodes.end();
    });
    // Who is in none is alone.
    sites.push_back(static_cast<uint32_t>(site == named.end() ? named.size() + i : site - named.begin()));
  }
  return sites;
}

std::vector<uint32_t> RoundLead::SitesOf(absl::Span<const NodeId> members) const {
  const config::SiteSource source = env_.spec.nodes.site_source;
  if (source == config::SiteSource::kNone || !member_.codec(Codec()).is_dense()) return {};
  std::vector<uint32_t> sites =
      source == config::SiteSource::kNamed ? NamedSites(members) : member_.sites().Of(members);
  const bool fit = exchange::Routes(sites, std::vector<bool>(sites.size())).fit();
  return fit && schedule::WorthGoingBySites(sites) ? sites : std::vector<uint32_t>();
}

void RoundLead::TellSites(absl::Span<const NodeId> members, const std::vector<uint32_t>& sites) {
  std::map<uint32_t, std::string> nodes;
  for (size_t i = 0; i < sites.size(); ++i) {
    const std::string name = env_.coordinator.NameOf(members[i]);
    absl::StrAppend(&nodes[sites[i]], nodes[sites[i]].empty() ? "" : ", ", name.empty() ? members[i].Short() : name);
  }
  std::string text;
  for (const auto& [site, names] : nodes) absl::StrAppend(&text, text.empty() ? "" : "; ", names);
  if (text == sites_) return;
  sites_ = text;
  member_.Event(wire::Severity::kInfo,
                absl::StrCat("from ", RoundName(position_.round), " on ",
                             text.empty() ? "every node exchanges with all others" : absl::StrCat("nodes exchange by sites: ", text)));
}

// The commit before says it, so that whoever leads the round has members keep what they packed. The first round goes by
// the last codec, the smallest as a rule: links are not known.
uint32_t RoundLead::Codec() const {
  return commit_ ? commit_->receipt.next_codec : static_cast<uint32_t>(env_.spec.rounds.codecs.size() - 1);
}

uint32_t RoundLead::ChooseCodec() {
  const std::vector<config::CodecSpec>& codecs = env_.spec.rounds.codecs;
  const config::CodecSpec& now = codecs[Codec()];
  const config::CodecSpec next = member_.tuner().ChooseCodec(Alive(), now);
  if (next != now) {
    member_.Event(wire::Severity::kInfo, absl::StrCat("from ", RoundName(position_.round.next()), " on deltas go by codec ",
                                                      next.ToString(), " instead of ", now.ToString(), ", as the links are"));
  }
  return static_cast<uint32_t>(std::find(codecs.begin(), codecs.end(), next) - codecs.begin());
}

}  // namespace gdf::rounds
