// Values that are given beside a YAML file, as `gdfctl submit --set train.steps=400` does.
#ifndef GDF_CORE_CONFIG_YAML_SETTING_H_
#define GDF_CORE_CONFIG_YAML_SETTING_H_

#include <string_view>

#include "core/config/yaml_node.h"

namespace gdf::config {

// Puts the value of `setting`, "dotted.key=VALUE" with YAML of one line as the value, into the map
// `*root`, in place of one that is there; sections on the way are made. The new nodes stand at an
// origin "--set dotted.key=VALUE" of `problems`, which also gets what is wrong with the setting.
void ApplySetting(std::string_view setting, YamlNode* root, Problems* problems);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_YAML_SETTING_H_
