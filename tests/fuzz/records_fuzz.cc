// links: gdf_net gdf_asio ssl crypto
// TLS records of a peer that has the keys and breaks the rules: the input says which types and contents it seals, what it
// changes of them and how much is read at once. What is read must be a beginning of the data that it has sealed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/net/records.h"
#include "tests/unit/net/record_peers.h"

namespace {

// Of one record: its type, how much of the input it holds, and what is done to it.
constexpr size_t kOrderBytes = 4;
constexpr size_t kMostInput = 16 << 10;  // so that the socket takes all of it

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::net;
  if (size < 2 || size > kMostInput) return 0;
  const SocketPair sockets;
  Records records(sockets.ends[0], CipherOf('w', true), CipherOf('r', false));
  if (data[0] % 2 == 0) records.ReadAhead();
  const size_t at_once = size_t{data[1]} + 1;
  RecordCipher peer = CipherOf('r', true);
  std::vector<uint8_t> sealed, expected;
  for (size_t at = 2; at + kOrderBytes <= size;) {
    const uint8_t* order = data + at;
    at += kOrderBytes;
    const size_t length = std::min<size_t>(order[1], size - at);
    const absl::Span<const uint8_t> content(data + at, length);
    at += length;
    std::vector<uint8_t> record(length + kRecordOverhead);
    peer.Seal(static_cast<RecordType>(order[0]), content, record.data());
    if (order[0] == 0) {
      size_t end = length;
      while (end > 0 && content[end - 1] == 0) --end;
      if (end > 0 && content[end - 1] == 23) expected.insert(expected.end(), content.begin(), content.begin() + end - 1);
    }
    if (order[0] == 23) expected.insert(expected.end(), content.begin(), content.end());
    record[order[2] % record.size()] ^= order[3];
    sealed.insert(sealed.end(), record.begin(), record.end());
  }
  GDF_CHECK(send(sockets.ends[1], sealed.data(), sealed.size(), 0) == static_cast<ssize_t>(sealed.size()));
  std::vector<uint8_t> came, part(at_once);
  while (true) {
    const ChannelStep step = records.Read(absl::MakeSpan(part));
    if (!step.done()) break;
    GDF_CHECK(step.bytes > 0 && step.bytes <= at_once);
    came.insert(came.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(step.bytes));
  }
  GDF_CHECK(came.size() <= expected.size() && std::equal(came.begin(), came.end(), expected.begin()));
  return 0;
}
