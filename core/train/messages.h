// The requests and replies of a worker session as message bodies, one pair of functions each.
// Every From... treats its argument as coming from the other side of the sandbox: kInvalidArgument,
// naming the field, for anything missing, mistyped or out of range.
#ifndef GDF_CORE_TRAIN_MESSAGES_H_
#define GDF_CORE_TRAIN_MESSAGES_H_

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/protocol.h"
#include "core/train/worker_session.h"

namespace gdf::train {

// A failed reply carries {"error":{"code":…,"message":…}}; a code that is none becomes kInternal.
nlohmann::json StatusToJson(const absl::Status& status);
absl::Status StatusFromJson(const nlohmann::json& error);

// Without the inputs, which are sent before it.
nlohmann::json ToJson(const LoadRequest& request);
absl::StatusOr<LoadRequest> LoadRequestFromJson(const nlohmann::json& body);
// kResourceExhausted when the layout is too large for a message.
absl::StatusOr<nlohmann::json> ToJson(const LoadResult& result);
absl::StatusOr<LoadResult> LoadResultFromJson(const nlohmann::json& body);

nlohmann::json ToJson(const StepProgress& progress);
absl::StatusOr<StepProgress> StepProgressFromJson(const nlohmann::json& body);

nlohmann::json ToJson(const RunRequest& request);
absl::StatusOr<RunRequest> RunRequestFromJson(const nlohmann::json& body);
nlohmann::json ToJson(const RunResult& result);
absl::StatusOr<RunResult> RunResultFromJson(const nlohmann::json& body);

nlohmann::json ToJson(const EmitRequest& request);
absl::StatusOr<EmitRequest> EmitRequestFromJson(const nlohmann::json& body);
// The packed bytes travel in the segment, not here.
nlohmann::json ToJson(const EmitResult& result);
absl::StatusOr<EmitResult> EmitResultFromJson(const nlohmann::json& body);

nlohmann::json ToJson(const EvalResult& result);
absl::StatusOr<EvalResult> EvalResultFromJson(const nlohmann::json& body);

nlohmann::json ToJson(const GenerateRequest& request);
absl::StatusOr<GenerateRequest> GenerateRequestFromJson(const nlohmann::json& body);
// The text travels in events, piece by piece, not here.
nlohmann::json ToJson(const GenerateResult& result);
absl::StatusOr<GenerateResult> GenerateResultFromJson(const nlohmann::json& body);

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_MESSAGES_H_
