#include "gdfctl/session.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/config/node_config.h"

namespace gdf::ctl {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kPlainColumns = 120;  // of what is drawn to a stream that is no terminal
constexpr uint64_t kMaxPemBytes = 1 << 20;

}  // namespace

std::string Session::SocketPath() const {
  if (!globals_.socket.empty()) return globals_.socket;
  if (auto path = environment_.variable("GDF_SOCKET"); path && !path->empty()) return *path;
  if (auto folder = environment_.variable("XDG_RUNTIME_DIR"); folder && !folder->empty()) {
    const std::string own = *folder + "/gdf/control.sock";
    if (environment_.files.Exists(own)) return own;
  }
  return "/run/gdf/control.sock";
}

absl::StatusOr<std::string> Session::ReadPem(const std::string& flag, const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError(absl::StrCat("--remote needs ", flag, " FILE"));
  absl::StatusOr<std::string> pem = environment_.files.Read(path, kMaxPemBytes);
  if (!pem.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", pem.status().message()));
  return pem;
}

absl::StatusOr<control::Client*> Session::client() {
  if (client_) return client_.get();
  control::Endpoint endpoint;
  endpoint.timeout = globals_.timeout;
  if (globals_.remote.empty()) {
    endpoint.socket = SocketPath();
  } else {
    if (!globals_.socket.empty()) {
      return absl::InvalidArgumentError("--socket and --remote exclude each other: one daemon, one way to it");
    }
    endpoint.address = globals_.remote;
    GDF_RETURN_IF_ERROR(Annotate(config::ParseEndpoint(globals_.remote).status(), "--remote"));
    GDF_ASSIGN_OR_RETURN(endpoint.certificate_pem, ReadPem("--cert", globals_.certificate));
    GDF_ASSIGN_OR_RETURN(endpoint.key_pem, ReadPem("--key", globals_.key));
    GDF_ASSIGN_OR_RETURN(endpoint.ca_pem, ReadPem("--ca", globals_.ca));
  }
  GDF_ASSIGN_OR_RETURN(client_, control::Client::Connect(endpoint));
  return client_.get();
}

Style Session::StyleOf(bool terminal) const {
  Style style;
  const std::string no_color = environment_.variable("NO_COLOR").value_or("");
  const std::string term = environment_.variable("TERM").value_or("");
  style.color = terminal && !globals_.no_color && no_color.empty() && term != "dumb";
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides (POSIX)
    const std::string locale = absl::AsciiStrToLower(environment_.variable(name).value_or(""));
    if (locale.empty()) continue;
    style.unicode = absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
    break;
  }
  style.wrap = terminal;
  style.width = terminal ? environment_.columns() : kPlainColumns;
  return style;
}

std::string Session::CommandText(const std::string& rest) const {
  std::string text = "gdfctl ";
  for (const auto& [flag, value] : {std::pair<const char*, const std::string&>{"--socket", globals_.socket},
                                    {"--remote", globals_.remote},
                                    {"--cert", globals_.certificate},
                                    {"--key", globals_.key},
                                    {"--ca", globals_.ca}}) {
    if (value.empty()) continue;
    const bool plain = value.find_first_of(" \t\n\"'$&;|<>()*?[]#~`\\!{}") == std::string::npos;
    absl::StrAppend(&text, flag, " ", plain ? value : absl::StrCat("'", absl::StrReplaceAll(value, {{"'", "'\\''"}}), "'"), " ");
  }
  return text + rest;
}

void Session::Write(std::string_view text) {
  if (!environment_.out) return;
  errno = 0;
  environment_.out << text << std::flush;
  if (!environment_.out) output_error_ = errno;
}

absl::Status Session::output() {
  Write("");
  if (environment_.out) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("standard output did not take all data: ", output_error_ != 0 ? std::strerror(output_error_) : "write error"));
}

void Session::Print(std::string_view text) { Write(text); }

void Session::PrintJson(const Json& object) {
  Json versioned = {{"schema_version", kSchemaVersion}};
  versioned.update(object);
  // Texts come from other machines: what is no UTF-8 becomes U+FFFD.
  Write(versioned.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Session::Say(std::string_view text) {
  if (!globals_.quiet) environment_.err << text << "\n" << std::flush;
}

void Session::SayWarning(std::string_view text) {
  Say(absl::StrCat(Paint(err_style(), Color::kYellow, "gdfctl: warning:"), " ", Printable(text)));
}

void Session::SayError(std::string_view text) {
  environment_.err << Paint(err_style(), Color::kRed, "gdfctl:") << " " << Printable(text) << "\n" << std::flush;
}

}  // namespace gdf::ctl
