#include "core/data/hf_files.h"

#include <string_view>
#include <utility>

#include "core/data/byte_alphabet.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

using Json = nlohmann::json;

// No token of an alphabet, as it is longer than a character: with an unknown token that the
// vocabulary lacks, the library refuses what has no token. Without one it would leave it out.
constexpr char kNoToken[] = "a character outside the alphabet";

// A model without merges: its tokens are single characters of what the pre-tokenizer gives.
Json File(Json vocab, Json unknown, Json pre_tokenizer, Json decoder) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", std::move(unknown)},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", Json::array()}}}};
}

}  // namespace

Json HfByteFile() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    std::string token;
    AppendByteCharacters(std::string_view(&value, 1), &token);
    vocab[token] = byte;
  }
  const auto byte_level = [](bool option) -> Json {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", option},
            {"trim_offsets", option},
            {"use_regex", option}};
  };
  // A decoder has no use for the options and always has them set.
  return File(std::move(vocab), nullptr, byte_level(false), byte_level(true));
}

Json HfCharFile(absl::Span<const char32_t> alphabet) {
  Json vocab = Json::object();
  for (size_t i = 0; i < alphabet.size(); ++i) {
    std::string token;
    AppendUtf8(alphabet[i], &token);
    vocab[token] = i;
  }
  return File(std::move(vocab), kNoToken, nullptr, {{"type", "Fuse"}});
}

std::vector<char32_t> FindHfCharacters(const Json& file) {
  static const Json::json_pointer kVocab("/model/vocab");
  if (!file.contains(kVocab) || !file.at(kVocab).is_object()) return {};
  std::vector<char32_t> characters;
  // By token in the order of its bytes, which is that of its code points.
  for (const auto& [token, id] : file.at(kVocab).items()) {
    if (token.empty()) return {};
    size_t end = 0;
    characters.push_back(NextCodePoint(token, &end));
    if (end != token.size()) return {};
  }
  return characters;
}

std::string HfConfigFile(const std::optional<std::string>& bos,
                         const std::optional<std::string>& eos) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (bos) config["bos_token"] = *bos;
  if (eos) config["eos_token"] = *eos;
  return config.dump(2) + "\n";
}

}  // namespace gdf::data
