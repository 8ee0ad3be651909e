// What every command has in hand: the global flags, the connection (made when first asked for), and the two streams:
// data to standard output, texts for people to standard error.
#ifndef GDF_GDFCTL_SESSION_H_
#define GDF_GDFCTL_SESSION_H_

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "core/control/client.h"
#include "gdfctl/environment.h"
#include "gdfctl/exit_code.h"
#include "gdfctl/render/text.h"

namespace gdf::ctl {

using Json = nlohmann::ordered_json;

struct Globals {
  std::string socket;
  std::string remote;  // "host:port"
  std::string certificate, key, ca;  // PEM files
  bool json = false;
  bool no_color = false;
  bool quiet = false;
  absl::Duration timeout = absl::Seconds(30);  // of calls that are not streams
};

// One thread, except for the client.
class Session {
 public:
  Session(Environment& environment, const Globals& globals) : environment_(environment), globals_(globals) {}

  // The same client at every call. kInvalidArgument when flags contradict each other or a PEM file cannot be read.
  absl::StatusOr<control::Client*> client();
  // Where the daemon is looked for: --socket, $GDF_SOCKET, the user's own in $XDG_RUNTIME_DIR, the system's.
  std::string SocketPath() const;

  bool json() const { return globals_.json; }
  bool quiet() const { return globals_.quiet; }
  Environment& environment() { return environment_; }
  absl::Time Now() const { return environment_.clock.Now(); }
  // Of standard output and standard error; asked anew since windows change.
  Style out_style() const { return StyleOf(environment_.out_is_terminal); }
  Style err_style() const { return StyleOf(environment_.err_is_terminal); }

  // "gdfctl job wait j1" for `rest` "job wait j1", with the flags of this call that say which daemon is meant.
  std::string CommandText(const std::string& rest) const;

  // Data, as it is. What prints as it goes asks output() whether there is a point in going on; Run() asks at the end.
  void Print(std::string_view text);
  // One line of JSON data, with the schema's version put first.
  void PrintJson(const Json& object);
  // kDataLoss, naming standard output and the reason, when it has not taken all that was printed.
  absl::Status output();
  // A line for people; not with --quiet.
  void Say(std::string_view text);
  // What goes on all the same and may not be meant; not with --quiet.
  void SayWarning(std::string_view text);
  // The end of a command with an error of the user's making or the network's.
  void SayError(std::string_view text);

 private:
  void Write(std::string_view text);
  Style StyleOf(bool terminal) const;
  absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path);

  Environment& environment_;
  const Globals& globals_;
  std::unique_ptr<control::Client> client_;
  int output_error_ = 0;  // errno of the first write that standard output did not take
};

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_SESSION_H_
