#include "core/tensor/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/quoted.h"

namespace gdf::tensor {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(
      absl::StrCat("safetensors: ", message, "; the file is damaged or not a safetensors file"));
}

// What the header says of one tensor, before it is checked.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<uint64_t>> data_offsets;
};

// Takes the header's JSON event by event: no document is built, so a hostile header costs no more
// memory than its own length, and a key that comes twice is seen.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(absl::StrCat("the number ", text));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (value > Layout::kMaxElems || entries.back().shape->size() == Layout::kMaxRank) {
        return Fail(absl::StrCat("shape with dimension ", value, ", expected at most ",
                                 Layout::kMaxRank, " dimensions of at most ", Layout::kMaxElems));
      }
      entries.back().shape->push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets && entries.back().data_offsets->size() < 2) {
      entries.back().data_offsets->push_back(value);
      return true;
    }
    return Unexpected(absl::StrCat("the number ", value));
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata && metadata.emplace(key_, std::move(value)).second) return true;
    if (state_ == State::kDType) {
      entries.back().dtype = std::move(value);
      state_ = State::kTensor;
      return true;
    }
    return Unexpected("a string");
  }

  bool start_object(size_t) override {
    switch (state_) {
      case State::kStart:
        state_ = State::kNames;
        return true;
      case State::kMetadataStart:
        state_ = State::kMetadata;
        return true;
      case State::kTensorStart:
        state_ = State::kTensor;
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (state_ == State::kNames) {
      state_ = State::kEnd;
      return true;
    }
    if (state_ == State::kTensor) {
      const Entry& entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.data_offsets) {
        return Fail("dtype, shape or data_offsets is missing");
      }
    }
    state_ = State::kNames;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ == State::kShapeStart) {
      entries.back().shape.emplace();
      state_ = State::kShape;
      return true;
    }
    if (state_ == State::kOffsetsStart) {
      entries.back().data_offsets.emplace();
      state_ = State::kOffsets;
      return true;
    }
    return Unexpected("an array");
  }

  bool end_array() override {
    if (state_ == State::kOffsets && entries.back().data_offsets->size() != 2) {
      return Fail("data_offsets is not a pair of numbers");
    }
    state_ = State::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kNames) return TopKey(name);
    if (state_ == State::kTensor) return TensorKey(name);
    key_ = name;
    if (metadata.contains(key_)) {
      return Fail(absl::StrCat("__metadata__ key ", Quoted(name), " comes twice"));
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    error = absl::StrCat("the header is not valid JSON at its byte ", position);
    return false;
  }

 private:
  enum class State {
    kStart,
    kNames,
    kMetadataStart,
    kMetadata,
    kTensorStart,
    kTensor,
    kDType,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kEnd
  };

  bool TopKey(const std::string& name) {
    if (name == "__metadata__") {
      if (has_metadata_) return Fail("__metadata__ comes twice");
      has_metadata_ = true;
      state_ = State::kMetadataStart;
      return true;
    }
    if (entries.size() == Layout::kMaxTensors) {
      return Fail(absl::StrCat("more than ", Layout::kMaxTensors, " tensors"));
    }
    entries.emplace_back().name = name;
    state_ = State::kTensorStart;
    return true;
  }

  bool TensorKey(const std::string& name) {
    const Entry& entry = entries.back();
    bool twice = false;
    if (name == "dtype") {
      state_ = State::kDType;
      twice = entry.dtype.has_value();
    } else if (name == "shape") {
      state_ = State::kShapeStart;
      twice = entry.shape.has_value();
    } else if (name == "data_offsets") {
      state_ = State::kOffsetsStart;
      twice = entry.data_offsets.has_value();
    } else {
      return Fail(
          absl::StrCat("unknown key ", Quoted(name), ", expected dtype, shape and data_offsets"));
    }
    return twice ? Fail(absl::StrCat(name, " comes twice")) : true;
  }

  bool Unexpected(const std::string& what) {
    return Fail(absl::StrCat(what, " where the format has none"));
  }

  bool Fail(const std::string& message) {
    const bool in_tensor = state_ >= State::kTensorStart && state_ < State::kEnd;
    error = in_tensor ? absl::StrCat("tensor ", Quoted(entries.back().name), ": ", message)
                      : absl::StrCat("header: ", message);
    return false;
  }

  State state_ = State::kStart;
  bool has_metadata_ = false;
  std::string key_;  // of the metadata entry being read
};

// Checks one entry by itself and gives it its bytes of `data`.
absl::StatusOr<SafetensorsTensor> MakeTensor(Entry entry, absl::Span<const uint8_t> data) {
  const std::string where = absl::StrCat("tensor ", Quoted(entry.name), ": ");
  const absl::StatusOr<DType> dtype = ParseDType(*entry.dtype);
  if (!dtype.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("safetensors: ", where, dtype.status().message()));
  }
  const absl::StatusOr<uint64_t> elems = ShapeElems(*entry.shape);
  if (!elems.ok()) return Bad(absl::StrCat(where, elems.status().message()));
  const uint64_t begin = (*entry.data_offsets)[0];
  const uint64_t end = (*entry.data_offsets)[1];
  if (begin > end || end > data.size()) {
    return Bad(absl::StrCat(where, "data_offsets [", begin, ",", end, "] leave the file's data of ",
                            data.size(), " bytes"));
  }
  if (end - begin != *elems * DTypeSize(*dtype)) {
    return Bad(absl::StrCat(where, "shape and dtype need ", *elems * DTypeSize(*dtype),
                            " bytes, data_offsets give ", end - begin));
  }
  return SafetensorsTensor{std::move(entry.name), *dtype, *std::move(entry.shape), *elems,
                           data.subspan(begin, end - begin)};
}

// The tensors, sorted by place, must fill `data` without overlap or hole.
absl::Status CheckCoverage(const std::vector<SafetensorsTensor>& tensors,
                           absl::Span<const uint8_t> data) {
  const uint8_t* next = data.data();
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.data.data() != next) {
      return Bad(absl::StrCat("tensor ", Quoted(tensor.name), ": data begins at byte ",
                              tensor.data.data() - data.data(), ", expected ", next - data.data(),
                              ": the tensors ",
                              tensor.data.data() < next ? "overlap" : "leave a hole"));
    }
    next += tensor.data.size();
  }
  const uint64_t covered = static_cast<uint64_t>(next - data.data());
  if (covered != data.size()) {
    return Bad(absl::StrCat("the tensors fill ", covered, " of ", data.size(), " data bytes"));
  }
  return absl::OkStatus();
}

// The header's text, cut out of the file by its length prefix.
absl::StatusOr<std::string_view> HeaderText(absl::Span<const uint8_t> file) {
  if (file.size() < kLengthBytes) {
    return Bad(
        absl::StrCat("the file has ", file.size(), " bytes, expected at least ", kLengthBytes));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{file[i]} << (8 * i);
  if (length > SafetensorsView::kMaxHeaderBytes) {
    return Bad(absl::StrCat("the header claims ", length, " bytes, expected at most ",
                            SafetensorsView::kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return Bad(absl::StrCat("the header claims ", length, " bytes, the file has ",
                            file.size() - kLengthBytes, " after its length"));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{') return Bad("the header does not begin with {");
  return text;
}

}  // namespace

absl::StatusOr<SafetensorsView> SafetensorsView::Parse(absl::Span<const uint8_t> file) {
  GDF_ASSIGN_OR_RETURN(const std::string_view text, HeaderText(file));
  const absl::Span<const uint8_t> data = file.subspan(kLengthBytes + text.size());
  HeaderReader reader;
  if (!Json::sax_parse(text, &reader)) return Bad(reader.error);

  SafetensorsView view;
  view.metadata_ = std::move(reader.metadata);
  view.tensors_.reserve(reader.entries.size());
  for (Entry& entry : reader.entries) {
    GDF_ASSIGN_OR_RETURN(SafetensorsTensor tensor, MakeTensor(std::move(entry), data));
    view.tensors_.push_back(std::move(tensor));
  }
  // An empty tensor begins where its successor does; the size puts it first.
  std::stable_sort(view.tensors_.begin(), view.tensors_.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.data.data(), a.data.size()) < std::tuple(b.data.data(), b.data.size());
  });
  for (size_t i = 0; i < view.tensors_.size(); ++i) {
    if (!view.index_.emplace(view.tensors_[i].name, i).second) {
      return Bad(absl::StrCat("tensor ", Quoted(view.tensors_[i].name), " comes twice"));
    }
  }
  GDF_RETURN_IF_ERROR(CheckCoverage(view.tensors_, data));
  return view;
}

const SafetensorsTensor* SafetensorsView::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

absl::Status SafetensorsView::ReadF32(std::string_view name, absl::Span<float> out) const {
  const SafetensorsTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat("safetensors: no tensor ", Quoted(name), " among ",
                                            tensors_.size(),
                                            "; check that the weights belong to this model"));
  }
  if (tensor->num_elems != out.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "safetensors: tensor ", Quoted(name), " has ", tensor->num_elems, " elements, expected ",
        out.size(), "; check that the weights belong to this model"));
  }
  return Annotate(ConvertToF32(tensor->dtype, tensor->data, out),
                  absl::StrCat("safetensors: tensor ", Quoted(name)));
}

}  // namespace gdf::tensor
