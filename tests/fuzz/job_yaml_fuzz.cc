// links: gdf_config
// job.yaml, gdfd.yaml and config.json: no input may crash, and what is accepted must survive its
// canonical form.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/config/job_spec.h"
#include "core/config/node_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = gdf::config::ParseJobSpec(text, "job.yaml");
  if (spec.ok()) {
    const auto again = gdf::config::ParseJobSpec(gdf::config::ToYaml(*spec), "canonical.yaml");
    GDF_CHECK(again.ok());
    GDF_CHECK(*again == *spec);
  }
  gdf::config::Problems problems("job.yaml");
  const std::string setting(text.substr(0, text.find('\n')));
  if (const auto set = gdf::config::ParseJobSpec(text, {&setting, 1}, &problems)) {
    GDF_CHECK(problems.empty());
    GDF_CHECK(*gdf::config::ParseJobSpec(gdf::config::ToYaml(*set), "canonical.yaml") == *set);
  }
  (void)gdf::config::ParseNodeConfig(text, "gdfd.yaml");
  const auto shape = gdf::config::ModelShapeFromHfConfig(text, "config.json");
  if (shape.ok()) {
    const std::string json = gdf::config::ModelShapeToHfConfig(*shape, "float32");
    const auto again = gdf::config::ModelShapeFromHfConfig(json, "config.json");
    GDF_CHECK(again.ok());
    GDF_CHECK(*again == *shape);
    GDF_CHECK(gdf::config::NumParameters(*shape) > 0);
  }
  return 0;
}
