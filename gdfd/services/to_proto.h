// From the network's records to the control API's messages.
#ifndef GDF_GDFD_SERVICES_TO_PROTO_H_
#define GDF_GDFD_SERVICES_TO_PROTO_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "core/state/records.h"
#include "gdfd/services/node_names.h"
#include "proto/control.pb.h"

namespace gdf::services {

grpc::Status ToGrpc(const absl::Status& status);
control::v1::Node ToProto(const state::Member& member);
control::v1::Gpu ToProto(const wire::GpuResource& gpu);
control::v1::Round ToProto(const state::RoundRecord& round);
control::v1::Event ToProto(const state::Event& event, const NodeNames& names);
control::v1::Job ToProto(const state::Job& job, const NodeNames& names);
control::v1::Invite ToProto(const state::InviteRecord& invite);

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_TO_PROTO_H_
