// From the control API's messages to its plain values, and what is checked of messages before they are sent.
#ifndef GDF_CORE_CONTROL_CONVERT_H_
#define GDF_CORE_CONTROL_CONVERT_H_

#include "absl/status/status.h"
#include "core/control/types.h"
#include "proto/control.pb.h"

namespace gdf::control {

// kInvalidArgument, naming the field, unless all texts of the message are UTF-8, as proto3 has it.
absl::Status CheckTexts(const google::protobuf::Message& message);

Node FromProto(const v1::Node& in);
Round FromProto(const v1::Round& in);
Event FromProto(const v1::Event& in);
Job FromProto(const v1::Job& in);
NodeStatus FromProto(const v1::StatusReply& in);
CheckpointList FromProto(const v1::ListCheckpointsReply& in);
CheckpointCheck FromProto(const v1::VerifyCheckpointReply& in);
Invite FromProto(const v1::Invite& in);
JobPlan FromProto(const v1::PlanReply& in);

}  // namespace gdf::control

#endif  // GDF_CORE_CONTROL_CONVERT_H_
