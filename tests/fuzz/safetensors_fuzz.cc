// links: gdf_tensor
// Parses the input as a safetensors file, as an index and as a layout. What is accepted must keep
// the promises of the headers: data inside the file, readable, and a layout that survives its own
// JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/tensor/layout.h"
#include "core/tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::tensor;
  const absl::Span<const uint8_t> file(data, size);
  const absl::StatusOr<SafetensorsView> view = SafetensorsView::Parse(file);
  if (view.ok()) {
    size_t covered = 0;
    for (const SafetensorsTensor& tensor : view->tensors()) {
      GDF_CHECK(tensor.data.data() >= data &&
                tensor.data.data() + tensor.data.size() <= data + size);
      GDF_CHECK(tensor.num_elems * DTypeSize(tensor.dtype) == tensor.data.size());
      GDF_CHECK(view->Find(tensor.name) == &tensor);
      covered += tensor.data.size();
      std::vector<float> values(tensor.num_elems);
      view->ReadF32(tensor.name, absl::MakeSpan(values)).IgnoreError();
    }
    GDF_CHECK(covered <= size);
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<SafetensorsIndex> index = SafetensorsIndex::Parse(text);
  if (index.ok()) {
    for (const std::string& name : index->Files()) {
      GDF_CHECK(name.find_first_of("/\\") == std::string::npos && name.front() != '.');
    }
  }
  const absl::StatusOr<Layout> layout = Layout::FromJson(text);
  if (layout.ok()) {
    GDF_CHECK(*Layout::FromJson(layout->ToJson()) == *layout);
  }
  return 0;
}
