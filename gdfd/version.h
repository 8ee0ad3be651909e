// The version that programs, handshakes and records show.
#ifndef GDF_GDFD_VERSION_H_
#define GDF_GDFD_VERSION_H_

namespace gdf {
inline constexpr char kVersion[] = GDF_VERSION;
}  // namespace gdf

#endif  // GDF_GDFD_VERSION_H_
