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

const CLI::Option* FindOption(const CLI::App& root, const CLI::App& at, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const CLI::Option* option = at.get_option_no_throw(name);
  return option != nullptr ? option : root.get_option_no_throw(name);
}

bool TakesNextWord(const CLI::Option* option, const std::string& word) {
  return option != nullptr && option->get_items_expected_max() > 0 && word.find('=') == std::string::npos;
}

}  // namespace gdf::ctl
