// links: gdf_data
// Dataset files from a stranger, as text and as JSON lines.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/data/dataset.h"
#include "core/data/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gdf::data::SourceFormat;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t half = size / 2;
  const std::vector<gdf::data::SourceFile> files = {{"first", bytes.substr(0, half)},
                                                    {"second", bytes.substr(half)}};
  for (const SourceFormat format : {SourceFormat::kText, SourceFormat::kJsonl}) {
    gdf::data::CorpusOptions options;
    options.source.format = format;
    options.seq_len = 4;
    const auto tokenizer = gdf::data::MakeCharTokenizerFor(files, options.source);
    if (!tokenizer.ok()) continue;
    const auto corpus = gdf::data::TokenizedCorpus::Build(files, **tokenizer, options);
    if (!corpus.ok()) continue;
    GDF_CHECK(corpus->train().size() + corpus->valid().size() == corpus->tokens().size());
    for (const int32_t id : corpus->tokens()) {
      GDF_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    }
  }
  return 0;
}
