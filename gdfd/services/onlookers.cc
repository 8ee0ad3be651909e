#include "gdfd/services/onlookers.h"

#include <fcntl.h>

#include <algorithm>

namespace gdf::services {

bool Onlookers::Admit(int fd, uid_t user) {
  const auto of_user =
      std::count_if(present_.begin(), present_.end(),
                    [user](const Onlooker& onlooker) { return onlooker.user == user; });
  if (present_.size() >= kMost || of_user >= kMostOfAUser) return false;
  train::UniqueFd duplicate(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) return false;
  present_.push_back({std::move(duplicate), user});
  return true;
}

std::vector<pollfd> Onlookers::Watch() const {
  std::vector<pollfd> watched;
  for (const Onlooker& onlooker : present_) watched.push_back({onlooker.fd.get(), POLLRDHUP, 0});
  return watched;
}

void Onlookers::Forget(const std::vector<pollfd>& polled) {
  std::erase_if(present_, [&](const Onlooker& onlooker) {
    return std::any_of(polled.begin(), polled.end(), [&](const pollfd& p) {
      return p.fd == onlooker.fd.get() && p.revents != 0;
    });
  });
}

}  // namespace gdf::services
