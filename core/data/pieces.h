// A text being tokenized: cut into pieces, of which some are added tokens already.
#ifndef GDF_CORE_DATA_PIECES_H_
#define GDF_CORE_DATA_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gdf::data {

struct Piece {
  size_t begin = 0;  // of the text
  size_t end = 0;
  int32_t id = -1;  // of an added token; -1: still text, [begin, end) of it

  bool is_text() const { return id < 0; }
};

struct Pieces {
  std::string text;
  std::vector<Piece> pieces;

  std::string_view TextOf(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
  // Empty pieces are left out, as in the `tokenizers` library.
  void AddText(size_t begin, size_t end) {
    if (begin < end) pieces.push_back({begin, end, -1});
  }
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_PIECES_H_
