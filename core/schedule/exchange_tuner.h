// What a job's lead has learned of its members' links and processors, and what follows for the next exchange: which
// codec, and who owns how much. Nothing is sent to find out: members tell what the last exchanges were like.
#ifndef GDF_CORE_SCHEDULE_EXCHANGE_TUNER_H_
#define GDF_CORE_SCHEDULE_EXCHANGE_TUNER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/config/codec_spec.h"
#include "core/schedule/exchange_time.h"
#include "core/wire/round_messages.h"

namespace gdf::schedule {

// Figures are what members say of themselves. One that lies gets a larger or smaller shard, within kMaxShare, or has
// everybody use another of the job's codecs; no more.
class ExchangeTuner {
 public:
  // The most that one member owns, in equal shares: what it holds of others stays within memory that was planned.
  static constexpr double kMaxShare = 1.5;

  // `codecs`: among which it chooses, in order of preference; not empty.
  ExchangeTuner(std::vector<config::CodecSpec> codecs, uint64_t num_values);

  // Of one member, after an exchange of more than one. `packing`: until its delta was packed; 0: it packed none.
  void Learn(const NodeId& member, const config::CodecSpec& codec, absl::Duration packing,
             const wire::LinkFigures& figures);

  // The first codec that is done within kNear of the soonest; `current` already within kStay. `current` where nothing
  // is known.
  config::CodecSpec ChooseCodec(absl::Span<const NodeId> members, const config::CodecSpec& current) const;

  // Packing and exchange, with the shares below; zero for one member or where nothing is known.
  absl::Duration Predict(absl::Span<const NodeId> members, const config::CodecSpec& codec) const;

  // By member, of wire::kSharesWhole in all; empty: equal, since little is gained otherwise.
  std::vector<uint32_t> DealShares(absl::Span<const NodeId> members) const;

 private:
  static constexpr double kNear = 1.02;
  static constexpr double kStay = 1.05;
  static constexpr double kWorthDealing = 0.9;  // of the time with equal shares

  struct Coding {
    double packing_sec = 0;
    double values_per_sec = 0;
  };
  struct Member {
    Link link;
    absl::Duration rtt;
    std::map<std::string, Coding> by_codec;
  };

  bool Known(absl::Span<const NodeId> members) const;  // the rate of a link
  bool Told(absl::Span<const NodeId> members) const;   // anything of an exchange: what is not known of it was no matter
  ExchangeLoad LoadOf(absl::Span<const NodeId> members) const;  // without what the codec says
  // Of the slowest member; of the fastest codec where this one was not used yet, so that it is tried.
  Coding CodingOf(absl::Span<const NodeId> members, const std::string& codec) const;

  const std::vector<config::CodecSpec> codecs_;
  const uint64_t num_values_;
  std::map<NodeId, Member> members_;
};

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_EXCHANGE_TUNER_H_
