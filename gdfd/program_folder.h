// Where this program lies, and what is installed beside it.
#ifndef GDF_GDFD_PROGRAM_FOLDER_H_
#define GDF_GDFD_PROGRAM_FOLDER_H_

#include <unistd.h>

#include <climits>
#include <string>

namespace gdf {

// Without a slash at its end.
inline std::string ProgramFolder() {
  char path[PATH_MAX] = "";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.rfind('/'));
}

}  // namespace gdf

#endif  // GDF_GDFD_PROGRAM_FOLDER_H_
