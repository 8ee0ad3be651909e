// What a connection still has to write: urgent frames in order, then the streams' frames
// round-robin, so that a stream with megabytes queued does not delay the others.
#ifndef GDF_CORE_NET_WRITE_QUEUE_H_
#define GDF_CORE_NET_WRITE_QUEUE_H_

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/net/frame.h"

namespace gdf::net {

// Not thread-safe.
class WriteQueue {
 public:
  // kData and kFinish queue up in their stream. kReset of a stream that was not finished here drops
  // what the stream has queued; of a finished one it follows it. Everything else is urgent.
  void Push(Frame frame) {
    const bool in_stream = frame.type == FrameType::kData || frame.type == FrameType::kFinish;
    auto it = frame.stream == 0 ? streams_.end() : streams_.find(frame.stream);
    if (frame.type == FrameType::kReset && it != streams_.end()) {
      if (!it->second.empty() && it->second.back().type == FrameType::kFinish) {
        it->second.push_back(std::move(frame));
        return;
      }
      it->second.clear();  // its turn in turns_ finds nothing
    }
    if (!in_stream) {
      urgent_.push_back(std::move(frame));
      return;
    }
    if (it == streams_.end()) {
      turns_.push_back(frame.stream);
      it = streams_.emplace(frame.stream, std::deque<Frame>()).first;
    }
    it->second.push_back(std::move(frame));
  }

  std::optional<Frame> Pop() {
    if (!urgent_.empty()) {
      Frame frame = std::move(urgent_.front());
      urgent_.pop_front();
      return frame;
    }
    while (!turns_.empty()) {
      const uint32_t stream = turns_.front();
      turns_.pop_front();
      auto it = streams_.find(stream);
      if (it->second.empty()) {
        streams_.erase(it);
        continue;
      }
      Frame frame = std::move(it->second.front());
      it->second.pop_front();
      if (it->second.empty()) {
        streams_.erase(it);
      } else {
        turns_.push_back(stream);
      }
      return frame;
    }
    return std::nullopt;
  }

  size_t urgent_size() const { return urgent_.size(); }
  void Clear() { *this = WriteQueue(); }

 private:
  std::deque<Frame> urgent_;
  std::map<uint32_t, std::deque<Frame>> streams_;
  std::deque<uint32_t> turns_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_WRITE_QUEUE_H_
