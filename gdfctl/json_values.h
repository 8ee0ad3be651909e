// The control API's values as JSON, for --json (docs/cli.md lists the fields). Times are RFC 3339 in UTC or null,
// durations seconds, sizes bytes.
#ifndef GDF_GDFCTL_JSON_VALUES_H_
#define GDF_GDFCTL_JSON_VALUES_H_

#include "core/control/client.h"
#include "gdfctl/session.h"

namespace gdf::ctl {

Json ToJson(const control::Node& node);
Json ToJson(const control::PingResult& ping);
Json ToJson(const control::Round& round);
Json ToJson(const control::Event& event);
Json ToJson(const control::Job& job);
Json ToJson(const control::NodeStatus& status);
Json ToJson(const control::Invite& invite);
Json ToJson(const control::JobPlan& plan);
Json ToJson(const control::Checkpoint& checkpoint);
Json ToJson(const control::CheckpointList& list);
Json ToJson(const control::CheckpointCheck& check);

template <typename T>
Json ToJsonList(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(ToJson(value));
  return list;
}

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_JSON_VALUES_H_
