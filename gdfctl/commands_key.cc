#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfctl/commands.h"

namespace gdf::ctl {
namespace {

constexpr uint64_t kMaxPassphraseBytes = 1024;

absl::StatusOr<ExitCode> Rotate(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::string id, client->RotateKey());
  if (session.json()) {
    session.PrintJson({{"node_id", id}});
  } else {
    session.Print(id + "\n");
  }
  session.Say("gdfd starts again with the new key; earlier backups are worthless now");
  return kExitOk;
}

absl::StatusOr<std::string> Passphrase(Session& session, const std::string& file) {
  if (!file.empty()) {
    absl::StatusOr<std::string> text = session.environment().files.Read(file, kMaxPassphraseBytes);
    if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat("--passphrase-file: ", text.status().message()));
    while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
    return text;
  }
  if (!session.environment().ask) {
    return absl::InvalidArgumentError("there is no terminal to ask for the passphrase on: give --passphrase-file FILE");
  }
  GDF_ASSIGN_OR_RETURN(const std::string first, session.environment().ask("Passphrase of the backup: ", /*secret=*/true));
  GDF_ASSIGN_OR_RETURN(const std::string second, session.environment().ask("Again: ", /*secret=*/true));
  if (first != second) return absl::InvalidArgumentError("the two passphrases differ");
  return first;
}

struct BackupOptions {
  std::string path;
  std::string passphrase_file;
  bool force = false;
};

absl::StatusOr<ExitCode> Backup(Session& session, const BackupOptions& options) {
  const std::string& path = options.path;
  if (path.empty() || path == "-") {
    return absl::InvalidArgumentError(
        absl::StrCat("FILE '", path, "': a backup needs the name of a file; it is not written to standard output"));
  }
  if (!options.force && session.environment().files.Exists(path)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; give another name, or --force to replace it"));
  }
  GDF_ASSIGN_OR_RETURN(const std::string passphrase, Passphrase(session, options.passphrase_file));
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::string archive, client->Backup(passphrase));
  GDF_RETURN_IF_ERROR(session.environment().files.WriteAtomic(path, archive, 0600));
  if (session.json()) session.PrintJson({{"file", path}, {"bytes", archive.size()}});
  session.Say(absl::StrCat("this node's key and its network's state are in ", path, ". Restore, with gdfd stopped: GDF_PASSPHRASE=… gdfd --restore ", path,
                           " --state-dir DIR"));
  return kExitOk;
}

}  // namespace

void AddKeyCommands(CLI::App& app, Command& chosen) {
  CLI::App* key = app.add_subcommand("key", "This node's key");
  key->require_subcommand(1);
  key->add_subcommand("rotate", "Replace it; the network learns of it by a record signed with the old one")
      ->callback([&chosen] { chosen = Rotate; });
  CLI::App* backup = app.add_subcommand("backup", "Write the key and the network's state, sealed, to a file");
  auto options = std::make_shared<BackupOptions>();
  backup->add_option("FILE", options->path, "Where to")->required();
  backup->add_option("--passphrase-file", options->passphrase_file, "Instead of asking on the terminal");
  backup->add_flag("--force", options->force, "Replace a file that is there");
  backup->callback([&chosen, options] { chosen = [options](Session& s) { return Backup(s, *options); }; });
}

}  // namespace gdf::ctl
