// Codecs: float32 values to packed bytes and back. Bit-identical on every machine.
// See docs/formats/codecs.md.
//
//   GDF_ASSIGN_OR_RETURN(CodecSpec spec, CodecSpec::Parse("int8:128"));
//   GDF_ASSIGN_OR_RETURN(std::unique_ptr<Codec> codec, Codec::Create(spec));
//   std::vector<uint8_t> packed(codec->PackedSize(delta.size()));
//   codec->Encode(delta, absl::MakeSpan(packed));
#ifndef GDF_CORE_COMPRESS_CODEC_H_
#define GDF_CORE_COMPRESS_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/codec_spec.h"

namespace gdf::compress {

using config::CodecKind;
using config::CodecSpec;

// Where stochastic rounding takes its random bits from; other codecs use none. The bits of a value
// follow from the seed and its place alone, so packed bytes do not depend on how values are cut.
struct Rounding {
  uint64_t seed = 0;
  uint64_t first = 0;  // place of the first value among those of the seed, a multiple of block()
};

// Packed bytes are cut where values are cut: for `a` a multiple of block(), the packed form of
// values [a, b) is bytes [PackedSize(a), PackedSize(b)) of the whole. So a delta is encoded once
// and sliced by shard, and a codec's result does not depend on the sharding.
//
// Immutable; every function is safe from any thread. Nothing allocates.
class Codec {
 public:
  // With the fastest loops of this processor. kInvalidArgument when spec.kind or spec.block is out
  // of range.
  static absl::StatusOr<std::unique_ptr<Codec>> Create(const CodecSpec& spec);

  virtual ~Codec() = default;

  const CodecSpec& spec() const { return spec_; }
  std::string name() const { return spec_.ToString(); }

  // Whether the mean of decoded contributions may be encoded again: the owner of a shard does so.
  // Else packed contributions go to everybody, since encoding a mean of them would lose most of it.
  virtual bool is_dense() const = 0;

  // Whether the packed form is the values themselves, byte for byte as they lie in memory.
  virtual bool is_verbatim() const { return false; }

  // Shards and pieces begin at multiples of this many values.
  virtual uint64_t block() const = 0;

  // Bytes that `num_values` (any number, 0 too) pack into.
  virtual uint64_t PackedSize(uint64_t num_values) const = 0;

  // Packs `in` into `out`, exactly PackedSize(in.size()) bytes. The values must be finite (see
  // tensor::CheckFinite): others give bytes that Decode refuses or that mean any value.
  void Encode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding& rounding = {}) const;

  // Unpacks to [out.size()] float32; `packed` is not trusted. kInvalidArgument when its length is
  // not PackedSize(out.size()) or it holds what Encode never writes of finite values; `out` then
  // holds any values. On success every value is finite.
  virtual absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const = 0;

  // acc[i] = acc[i] + weight * decoded[i], both operations rounded to float32, but for values that
  // the packed form leaves out, whose acc[i] stays. Errors as Decode,
  // and then `acc` is spoilt.
  virtual absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                        absl::Span<float> acc) const = 0;

  // An upper bound of |x - decoded| for every value of a block whose largest magnitude is
  // `max_abs` (finite).
  virtual double ErrorBound(float max_abs) const = 0;

 protected:
  explicit Codec(const CodecSpec& spec) : spec_(spec) {}

 private:
  virtual void DoEncode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding& rounding) const = 0;

  const CodecSpec spec_;
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_CODEC_H_
