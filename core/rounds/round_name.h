// Rounds in texts for people count from 1, as gdfctl counts them: the one that makes θ_1 of θ_0 is "round 1".
#ifndef GDF_CORE_ROUNDS_ROUND_NAME_H_
#define GDF_CORE_ROUNDS_ROUND_NAME_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/ids.h"

namespace gdf::rounds {

// "round 5" of the round that starts from θ_4.
inline std::string RoundName(RoundId from) { return absl::StrCat("round ", from.value + 1); }

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_ROUND_NAME_H_
