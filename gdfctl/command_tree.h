// The tree of commands, looked at.
#ifndef GDF_GDFCTL_COMMAND_TREE_H_
#define GDF_GDFCTL_COMMAND_TREE_H_

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace gdf::ctl {

// Those below `app` that its help shows.
std::vector<const CLI::App*> CommandsOf(const CLI::App& app);
// The one below `app` of that name; null: there is none.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name);
// The option that `word`, "--name" or "--name=value", gives behind the command `at`: its own or one of `root`. Null: none.
const CLI::Option* FindOption(const CLI::App& root, const CLI::App& at, const std::string& word);
// Whether the next word is the value of that option.
bool TakesNextWord(const CLI::Option* option, const std::string& word);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_COMMAND_TREE_H_
