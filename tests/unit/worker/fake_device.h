// A device that is the host's memory.
#ifndef GDF_TESTS_UNIT_WORKER_FAKE_DEVICE_H_
#define GDF_TESTS_UNIT_WORKER_FAKE_DEVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "cuda/loader.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {

// `kind`: in what it differs from a good one (tests/unit/cuda/fake_plugin.cc).
inline std::shared_ptr<cuda::Session> Packer(const std::string& kind) {
  const cuda::Plugin plugin = ValueOf(cuda::Plugin::Load(GDF_FAKE_FOLDER "/fake_" + kind + ".so"));
  return std::make_shared<cuda::Session>(ValueOf(plugin.Open(0)));
}

}  // namespace gdf::worker

#endif  // GDF_TESTS_UNIT_WORKER_FAKE_DEVICE_H_
