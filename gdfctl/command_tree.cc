#include "gdfctl/command_tree.h"

#include <algorithm>

namespace gdf::ctl {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> all = app.get_subcommands([](const CLI::App*) { return true; });
  const auto named = std::find_if(all.begin(), all.end(), [&](const CLI::App* command) { return command->get_name() == name; });
  return named == all.end() ? nullptr : *named;
}

}  // namespace gdf::ctl
