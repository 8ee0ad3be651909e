// Immutable, reference-counted bytes: a tensor's frames pass through the transport without a copy.
#ifndef GDF_CORE_BASE_BUFFER_H_
#define GDF_CORE_BASE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/check.h"

namespace gdf {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::string data) {
    auto owner = std::make_shared<const std::string>(std::move(data));
    data_ = {reinterpret_cast<const uint8_t*>(owner->data()), owner->size()};
    owner_ = std::move(owner);
  }
  explicit Buffer(std::vector<uint8_t> data) {
    auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(data));
    data_ = {owner->data(), owner->size()};
    owner_ = std::move(owner);
  }
  // A view of memory that `owner` keeps alive and unchanged for as long as any copy of the Buffer lives.
  static Buffer Wrap(absl::Span<const uint8_t> data, std::shared_ptr<const void> owner) {
    Buffer buffer;
    buffer.data_ = data;
    buffer.owner_ = std::move(owner);
    return buffer;
  }
  static Buffer Copy(absl::Span<const uint8_t> data) {
    return Buffer(std::vector<uint8_t>(data.begin(), data.end()));
  }

  absl::Span<const uint8_t> span() const { return data_; }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(data_.data()), data_.size()};
  }
  size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  // Shares the bytes. [offset, offset + length) must lie inside.
  Buffer Slice(size_t offset, size_t length) const {
    GDF_CHECK(offset <= size() && length <= size() - offset);
    return Wrap(data_.subspan(offset, length), owner_);
  }

 private:
  absl::Span<const uint8_t> data_;
  std::shared_ptr<const void> owner_;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_BUFFER_H_
