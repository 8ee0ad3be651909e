// How job.yaml spells each value of an enumeration; the reader and the printer share it.
#ifndef GDF_CORE_CONFIG_JOB_SPEC_NAMES_H_
#define GDF_CORE_CONFIG_JOB_SPEC_NAMES_H_

#include <string_view>
#include <utility>

#include "core/config/job_spec.h"

namespace gdf::config {

inline constexpr std::pair<std::string_view, JobKind> kJobKinds[] = {
    {"train", JobKind::kTrain}, {"finetune", JobKind::kFinetune}};
inline constexpr std::pair<std::string_view, DataFormat> kDataFormats[] = {
    {"text", DataFormat::kText}, {"jsonl", DataFormat::kJsonl}};
inline constexpr std::pair<std::string_view, TokenizerKind> kTokenizers[] = {
    {"char", TokenizerKind::kChar},
    {"byte", TokenizerKind::kByte},
    {"model", TokenizerKind::kModel},
    {"file", TokenizerKind::kFile}};
inline constexpr std::pair<std::string_view, InnerOptimizer> kInnerOptimizers[] = {
    {"adamw", InnerOptimizer::kAdamW}, {"sgd", InnerOptimizer::kSgd}};
inline constexpr std::pair<std::string_view, LrSchedule> kLrSchedules[] = {
    {"constant", LrSchedule::kConstant},
    {"cosine", LrSchedule::kCosine},
    {"linear", LrSchedule::kLinear},
    {"wsd", LrSchedule::kWsd}};
inline constexpr std::pair<std::string_view, Precision> kPrecisions[] = {
    {"auto", Precision::kAuto}, {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}};
inline constexpr std::pair<std::string_view, OuterOptimizer> kOuterOptimizers[] = {
    {"nesterov", OuterOptimizer::kNesterov}, {"sgd", OuterOptimizer::kSgd}};
inline constexpr std::pair<std::string_view, Device> kDevices[] = {
    {"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"gpu", Device::kGpu}};
inline constexpr std::pair<std::string_view, WeightDtype> kWeightDtypes[] = {
    {"fp32", WeightDtype::kFp32}, {"bf16", WeightDtype::kBf16}};
inline constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"gelu", Activation::kGelu}, {"gelu_new", Activation::kGeluNew}, {"silu", Activation::kSilu}};
inline constexpr std::pair<std::string_view, Activation> kGpt2Activations[] = {
    {"gelu", Activation::kGelu}, {"gelu_new", Activation::kGeluNew}};

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_JOB_SPEC_NAMES_H_
