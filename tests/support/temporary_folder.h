// A folder for one test.
#ifndef GDF_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define GDF_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <string>

#include "core/base/check.h"
#include "core/base/file_system.h"

namespace gdf::testing {

// A new folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char pattern[] = "/tmp/gdf-test-XXXXXX";
    GDF_CHECK(mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { PosixFileSystem().RemoveTree(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gdf::testing

#endif  // GDF_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
