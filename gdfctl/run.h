// gdfctl from its arguments to its exit code.
#ifndef GDF_GDFCTL_RUN_H_
#define GDF_GDFCTL_RUN_H_

#include <string>
#include <vector>

#include "gdfctl/environment.h"

namespace gdf::ctl {

// `arguments` without the program's name. Returns the exit code.
int Run(const std::vector<std::string>& arguments, Environment& environment);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_RUN_H_
