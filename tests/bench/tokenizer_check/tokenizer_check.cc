// tokenizer_check TOKENIZER.json < requests > answers: encodes and decodes texts for check.py.
//   request: u32 length, that many bytes of UTF-8
//   answer:  u32 1, u32 count, that many i32 ids, u32 length, the ids decoded without special
//            tokens; or u32 0, u32 length, the error
// tokenizer_check TOKENIZER.json --time TEXT_FILE: prints how fast the file is encoded.
// Numbers are little-endian as the machines are.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/data/tokenizer.h"

namespace {

using gdf::data::AddSpecial;
using gdf::data::Tokenizer;

std::string ReadFile(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool Read(std::string* text) {
  uint32_t length = 0;
  if (std::fread(&length, sizeof(length), 1, stdin) != 1) return false;
  text->resize(length);
  return std::fread(text->data(), 1, length, stdin) == length;
}

void Write(uint32_t number) { std::fwrite(&number, sizeof(number), 1, stdout); }

void Write(std::string_view text) {
  Write(static_cast<uint32_t>(text.size()));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Answer(const Tokenizer& tokenizer) {
  std::string text;
  while (Read(&text)) {
    const auto ids = tokenizer.Encode(text, AddSpecial::kYes);
    if (!ids.ok()) {
      Write(0);
      Write(ids.status().ToString());
      continue;
    }
    Write(1);
    Write(static_cast<uint32_t>(ids->size()));
    std::fwrite(ids->data(), sizeof(int32_t), ids->size(), stdout);
    Write(tokenizer.Decode(*ids, /*skip_special=*/true));
  }
}

int Time(const Tokenizer& tokenizer, const std::string& text) {
  const absl::Time begin = absl::Now();
  const auto ids = tokenizer.Encode(text);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  if (!ids.ok()) {
    std::cerr << ids.status() << "\n";
    return 1;
  }
  std::printf("%zu bytes -> %zu tokens in %.3f s: %.1f MB/s\n", text.size(), ids->size(), seconds,
              static_cast<double>(text.size()) / seconds / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && !(argc == 4 && std::string_view(argv[2]) == "--time")) {
    std::cerr << "usage: tokenizer_check TOKENIZER.json [--time TEXT_FILE]\n";
    return 4;
  }
  const auto tokenizer = gdf::data::ParseTokenizer(ReadFile(argv[1]));
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 4;
  }
  if (argc == 4) return Time(**tokenizer, ReadFile(argv[3]));
  Answer(**tokenizer);
  return 0;
}
