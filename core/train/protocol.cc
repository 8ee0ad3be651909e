#include "core/train/protocol.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::train {
namespace {

uint32_t LoadU32(const char* p) {
  const auto* u = reinterpret_cast<const unsigned char*>(p);
  return u[0] | u[1] << 8 | u[2] << 16 | static_cast<uint32_t>(u[3]) << 24;
}

void StoreU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

// Deepest nesting of brackets outside strings.
int JsonDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

const nlohmann::json& EmptyArray() {
  static const nlohmann::json* empty = new nlohmann::json(nlohmann::json::array());
  return *empty;
}

}  // namespace

absl::StatusOr<std::string> EncodeFrame(const nlohmann::json& body, size_t num_fds) {
  const std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxMessageBytes || num_fds > kMaxMessageFds) {
    return absl::ResourceExhaustedError(
        absl::StrCat("worker message of ", text.size(), " bytes with ", num_fds, " files, at most ",
                     kMaxMessageBytes, " and ", kMaxMessageFds, " fit"));
  }
  std::string frame;
  frame.reserve(kFrameHeaderBytes + text.size());
  StoreU32(static_cast<uint32_t>(text.size()), &frame);
  StoreU32(static_cast<uint32_t>(num_fds), &frame);
  return frame + text;
}

absl::StatusOr<std::optional<Frame>> FrameParser::Next() {
  const size_t available = buffer_.size() - read_at_;
  if (available < kFrameHeaderBytes) return std::nullopt;
  const uint32_t length = LoadU32(buffer_.data() + read_at_);
  const uint32_t num_fds = LoadU32(buffer_.data() + read_at_ + 4);
  if (length == 0 || length > kMaxMessageBytes || num_fds > kMaxMessageFds) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker message says ", length, " bytes and ", num_fds,
                     " files, expected 1 to ", kMaxMessageBytes, " and at most ", kMaxMessageFds));
  }
  if (available - kFrameHeaderBytes < length) return std::nullopt;
  Frame frame{buffer_.substr(read_at_ + kFrameHeaderBytes, length), num_fds};
  read_at_ += kFrameHeaderBytes + length;
  if (read_at_ == buffer_.size() || read_at_ >= kMaxMessageBytes) {
    buffer_.erase(0, read_at_);
    read_at_ = 0;
  }
  return frame;
}

absl::StatusOr<nlohmann::json> ParseMessageBody(std::string_view text) {
  if (JsonDepth(text) > kMaxJsonDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker message is nested deeper than ", kMaxJsonDepth, " levels"));
  }
  nlohmann::json body =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) {
    return absl::InvalidArgumentError("worker message is not a JSON object");
  }
  return body;
}

void FieldReader::Fail(const char* name, std::string_view problem) {
  if (status_.ok()) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat("worker message: ", name, " ", ToAbsl(problem)));
  }
}

const nlohmann::json* FieldReader::Find(const char* name) {
  if (!status_.ok()) return nullptr;
  const auto it = body_.find(name);
  if (it == body_.end()) {
    Fail(name, "is missing");
    return nullptr;
  }
  return &*it;
}

int64_t FieldReader::Int(const char* name, int64_t min, int64_t max) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return min;
  int64_t number = 0;
  bool in_range = false;
  if (value->is_number_unsigned()) {
    const uint64_t word = value->get<uint64_t>();
    in_range = word <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    number = static_cast<int64_t>(word);
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
    in_range = true;
  }
  if (!in_range || number < min || number > max) {
    Fail(name, absl::StrCat("is not a whole number from ", min, " to ", max));
    return min;
  }
  return number;
}

uint64_t FieldReader::Word(const char* name) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return 0;
  if (!value->is_number_unsigned()) {
    Fail(name, "is not a whole number from 0 to 2^64 - 1");
    return 0;
  }
  return value->get<uint64_t>();
}

double FieldReader::Number(const char* name) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return 0;
  if (value->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value->is_number()) {
    Fail(name, "is not a number");
    return 0;
  }
  return value->get<double>();
}

bool FieldReader::Bool(const char* name) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    Fail(name, "is neither true nor false");
    return false;
  }
  return value->get<bool>();
}

std::string FieldReader::String(const char* name, size_t max_bytes) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return "";
  if (!value->is_string() || value->get_ref<const std::string&>().size() > max_bytes) {
    Fail(name, absl::StrCat("is not a text of at most ", max_bytes, " bytes"));
    return "";
  }
  return value->get<std::string>();
}

const nlohmann::json& FieldReader::Array(const char* name, size_t max_items) {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return EmptyArray();
  if (!value->is_array() || value->size() > max_items) {
    Fail(name, absl::StrCat("is not a list of at most ", max_items, " items"));
    return EmptyArray();
  }
  return *value;
}

}  // namespace gdf::train
