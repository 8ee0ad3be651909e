// links: gdf_train
// Bytes from the other side of the sandbox, in pieces whose size the first byte chooses. A frame
// that parses survives being sent on, and so does every request and reply that its body is read as.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/train/messages.h"
#include "core/train/protocol.h"

namespace {

using nlohmann::json;

std::string Text(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<json> ToBody(absl::StatusOr<json> body) { return body; }

// Reads `body` as one kind of message; what was read and written must read as the same.
template <typename Message>
void Check(absl::StatusOr<Message> (*read)(const json&), const json& body) {
  const absl::StatusOr<Message> message = read(body);
  if (!message.ok()) return;
  const absl::StatusOr<json> written = ToBody(gdf::train::ToJson(*message));
  if (!written.ok()) return;  // too large for a message
  const absl::StatusOr<json> parsed = gdf::train::ParseMessageBody(Text(*written));
  GDF_CHECK(parsed.ok());
  const absl::StatusOr<Message> again = read(*parsed);
  GDF_CHECK(again.ok());
  GDF_CHECK(Text(*ToBody(gdf::train::ToJson(*again))) == Text(*written));
}

void CheckBody(const json& body) {
  using namespace gdf::train;
  Check(&LoadRequestFromJson, body);
  Check(&LoadResultFromJson, body);
  Check(&StepProgressFromJson, body);
  Check(&RunRequestFromJson, body);
  Check(&RunResultFromJson, body);
  Check(&EmitRequestFromJson, body);
  Check(&EmitResultFromJson, body);
  Check(&EvalResultFromJson, body);
  Check(&GenerateRequestFromJson, body);
  Check(&GenerateResultFromJson, body);
  GDF_CHECK(!StatusFromJson(body).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::train;
  if (size == 0) return 0;
  const size_t step = data[0] + size_t{1};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  FrameParser parser;
  for (size_t at = 0; at < bytes.size(); at += step) {
    parser.Append(bytes.substr(at, step));
    while (true) {
      const absl::StatusOr<std::optional<Frame>> frame = parser.Next();
      if (!frame.ok()) return 0;
      if (!frame->has_value()) break;
      GDF_CHECK(!(*frame)->body.empty() && (*frame)->body.size() <= kMaxMessageBytes);
      GDF_CHECK((*frame)->num_fds <= kMaxMessageFds);
      const absl::StatusOr<json> body = ParseMessageBody((*frame)->body);
      if (!body.ok()) continue;
      GDF_CHECK(body->is_object());
      if (const auto sent = EncodeFrame(*body, (*frame)->num_fds); sent.ok()) {
        GDF_CHECK(*ParseMessageBody(std::string_view(*sent).substr(kFrameHeaderBytes)) == *body);
      }
      CheckBody(*body);
    }
  }
  return 0;
}
