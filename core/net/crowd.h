// A bounded crowd: whoever comes too many pushes out the one that has been there longest among those
// of the most crowded place. A flood so displaces itself, and an honest newcomer has the time to
// leave again before its turn comes.
#ifndef GDF_CORE_NET_CROWD_H_
#define GDF_CORE_NET_CROWD_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace gdf::net {

// Not thread-safe. `Place` is ordered.
template <typename Place, typename Guest>
class Crowd {
 public:
  // Both at least 1.
  Crowd(size_t most, size_t most_of_a_place) : most_(most), most_of_a_place_(most_of_a_place) {}

  struct Added {
    uint64_t number;              // for Remove
    std::optional<Guest> pushed;  // who had to go
  };
  Added Add(const Place& place, Guest guest) {
    std::optional<Guest> pushed;
    const auto there = places_.find(place);
    if (there != places_.end() && there->second.size() >= most_of_a_place_) {
      pushed = TakeOldest(there);
    } else if (size_ >= most_) {
      pushed = TakeOldest(MostCrowded());
    }
    places_[place].emplace(next_, std::move(guest));
    ++size_;
    return {next_++, std::move(pushed)};
  }

  // Also when it was pushed out before.
  void Remove(const Place& place, uint64_t number) {
    const auto there = places_.find(place);
    if (there == places_.end()) return;
    size_ -= there->second.erase(number);
    if (there->second.empty()) places_.erase(there);
  }

  size_t size() const { return size_; }

 private:
  using Guests = std::map<uint64_t, Guest>;  // oldest first
  using Places = std::map<Place, Guests>;

  // Of several the one whose oldest has been there longest. Not when empty.
  typename Places::iterator MostCrowded() {
    auto best = places_.begin();
    for (auto it = std::next(best); it != places_.end(); ++it) {
      const size_t guests = it->second.size(), most = best->second.size();
      const bool older = it->second.begin()->first < best->second.begin()->first;
      if (guests > most || (guests == most && older)) best = it;
    }
    return best;
  }

  Guest TakeOldest(typename Places::iterator place) {
    Guest guest = std::move(place->second.begin()->second);
    place->second.erase(place->second.begin());
    if (place->second.empty()) places_.erase(place);
    --size_;
    return guest;
  }

  const size_t most_;
  const size_t most_of_a_place_;
  size_t size_ = 0;
  uint64_t next_ = 0;
  Places places_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CROWD_H_
