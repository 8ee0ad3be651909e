// What is allowed in a job and rarely meant.
#ifndef GDF_CORE_CONFIG_JOB_ADVICE_H_
#define GDF_CORE_CONFIG_JOB_ADVICE_H_

#include <string>
#include <vector>

#include "core/config/job_spec.h"

namespace gdf::config {

// A sentence for each, for whoever wrote the file: the key, what it leads to and what to do.
std::vector<std::string> Warnings(const JobSpec& spec);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_JOB_ADVICE_H_
