#include "core/exchange/routes.h"

#include <algorithm>

#include "core/base/check.h"

namespace gdf::exchange {

Routes::Routes(absl::Span<const uint32_t> sites, const std::vector<bool>& gone) : gone_(gone) {
  const std::vector<uint32_t> one(gone.size(), 0);
  if (sites.empty()) sites = one;
  GDF_CHECK(sites.size() == gone.size());
  std::vector<uint32_t> numbers(sites.begin(), sites.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  at_site_.resize(numbers.size());
  for (uint32_t i = 0; i < sites.size(); ++i) {
    const auto at = std::lower_bound(numbers.begin(), numbers.end(), sites[i]);
    site_of_.push_back(static_cast<uint32_t>(at - numbers.begin()));
    at_site_[site_of_[i]].push_back(i);
  }
}

// Owners of one site have the members of the other one by turns; who is lost leaves its turns to the next.
uint32_t Routes::gate(uint32_t site, uint32_t owner) const {
  const std::vector<uint32_t>& with_owner = at_site_[site_of_[owner]];
  const std::vector<uint32_t>& members = at_site_[site];
  const size_t turn = static_cast<size_t>(std::find(with_owner.begin(), with_owner.end(), owner) - with_owner.begin());
  for (size_t i = 0; i < members.size(); ++i) {
    const uint32_t member = members[(turn + i) % members.size()];
    if (!gone_[member]) return member;
  }
  return members.front();
}

uint32_t Routes::next(uint32_t member, uint32_t owner) const {
  if (site_of_[member] == site_of_[owner]) return owner;
  const uint32_t through = gate(site_of_[member], owner);
  return through == member ? owner : through;
}

std::vector<uint32_t> Routes::behind(uint32_t member, uint32_t owner) const {
  if (site_of_[member] == site_of_[owner] || gate(site_of_[member], owner) != member) return {member};
  std::vector<uint32_t> members;
  for (const uint32_t neighbour : at_site_[site_of_[member]]) {
    if (!gone_[neighbour]) members.push_back(neighbour);
  }
  return members;
}

std::vector<uint32_t> Routes::senders(uint32_t member, uint32_t owner) const {
  std::vector<uint32_t> members;
  if (member != owner) {
    members = behind(member, owner);
  } else {
    for (uint32_t site = 0; site < at_site_.size(); ++site) {
      const uint32_t through = gate(site, owner);
      for (const uint32_t other : at_site_[site]) {
        if (!gone_[other] && (site == site_of_[owner] || other == through)) members.push_back(other);
      }
    }
    std::sort(members.begin(), members.end());
  }
  std::erase(members, member);
  return members;
}

bool Routes::fit() const {
  for (const std::vector<uint32_t>& site : at_site_) {
    if (site.size() < 2) continue;
    size_t most = 1;  // to the other as an owner
    for (const std::vector<uint32_t>& owners : at_site_) {
      if (&owners != &site) most += (owners.size() + site.size() - 1) / site.size();
    }
    if (most > kMaxStreams) return false;
  }
  return true;
}

}  // namespace gdf::exchange
