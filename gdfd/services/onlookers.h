// The connections of the machine's users who may only look: bounded, so that nobody takes the
// daemon's descriptors, by user too, so that nobody takes the others' share.
#ifndef GDF_GDFD_SERVICES_ONLOOKERS_H_
#define GDF_GDFD_SERVICES_ONLOOKERS_H_

#include <poll.h>
#include <sys/types.h>

#include <vector>

#include "core/train/unique_fd.h"

namespace gdf::services {

// On one thread.
class Onlookers {
 public:
  static constexpr int kMost = 64;
  static constexpr int kMostOfAUser = 16;

  // Counts the connection until its other end closes it, which a duplicate of the descriptor tells.
  // False when there is no room.
  bool Admit(int fd, uid_t user);

  // What to poll for ends; then forgets the connections that have ended. `polled`: as Watch gave it,
  // with the results.
  std::vector<pollfd> Watch() const;
  void Forget(const std::vector<pollfd>& polled);

 private:
  struct Onlooker {
    train::UniqueFd fd;
    uid_t user;
  };
  std::vector<Onlooker> present_;
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_ONLOOKERS_H_
