// gdfctl's side of the control API (proto/control.proto): one blocking function a call, over the daemon's Unix socket
// or over TLS with a client certificate. Every function fails with kUnavailable when no daemon answers, else with the
// daemon's status. Thread-safe.
//
//   GDF_ASSIGN_OR_RETURN(auto client, Client::Connect({.socket = "/run/gdf/control.sock"}));
//   GDF_ASSIGN_OR_RETURN(NodeStatus status, client->Status());
#ifndef GDF_CORE_CONTROL_CLIENT_H_
#define GDF_CORE_CONTROL_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/control/types.h"

namespace gdf::control {

struct Endpoint {
  std::string socket = {};   // path of the Unix socket; or, when empty:
  std::string address = {};  // "host:port" of the remote control API
  std::string ca_pem = {}, certificate_pem = {}, key_pem = {};  // contents, for `address`
  absl::Duration timeout = absl::Seconds(30);  // of calls that are not streams
};

// What WatchJob hands over; exactly one is set. `finished` comes last.
struct JobUpdate {
  std::optional<Round> round = std::nullopt;
  std::optional<Event> event = std::nullopt;
  std::optional<Job> job = std::nullopt;
  std::optional<Job> finished = std::nullopt;
};

struct WatchRequest {
  std::string job;
  uint64_t after_event = 0;  // id of the last event already known
  uint64_t from_round = 0;
  bool follow = false;  // until the job ends; off: what there is so far
};

// A running watch of a job. Destroying it ends it.
class JobWatch {
 public:
  ~JobWatch();
  // Waits for the next update; absent when there are no more: Finish() then says why.
  std::optional<JobUpdate> Next();
  // Once, after Next() gave nothing. OK when the daemon told all that was asked for.
  absl::Status Finish();
  // Makes Next() give nothing and Finish() kCancelled. Any thread.
  void Cancel();

 private:
  friend class Client;
  struct Impl;
  explicit JobWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A file to upload, read piece by piece.
struct UploadFile {
  std::string name;    // plain relative path
  uint64_t size = 0;
  // Fills `out` from the file's current position. Must give `size` bytes in all.
  std::function<absl::Status(absl::Span<uint8_t> out)> read;
};

// Receives an export: Begin for each file, then its bytes.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  virtual absl::Status Begin(const std::string& name, uint64_t size) = 0;
  virtual absl::Status Data(absl::Span<const uint8_t> piece) = 0;
};

class Client {
 public:
  // Does not connect yet; the first call does.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const Endpoint& endpoint);
  ~Client();

  absl::StatusOr<NodeStatus> Status();
  absl::StatusOr<std::string> CreateNetwork(const std::string& name);  // its id
  absl::StatusOr<NodeStatus> Join(const std::string& invite, const std::string& node_name);
  // Why the network could not be told; empty: it knows. gdfd starts anew after it.
  absl::StatusOr<std::string> Leave();

  absl::StatusOr<Invite> CreateInvite(const std::string& roles, absl::Duration ttl, uint32_t uses);
  absl::StatusOr<std::vector<Invite>> ListInvites();
  absl::Status RevokeInvite(const std::string& id);

  absl::StatusOr<std::vector<Node>> ListNodes();
  // `node`: as ChangeNode takes it. kUnavailable, kDeadlineExceeded: not reached; kInvalidArgument: it is this node.
  absl::StatusOr<PingResult> Ping(const std::string& node);
  absl::Status ChangeNode(const std::string& node, NodeChange change, const std::string& roles = "");

  // ZeroDuration: until Resume. How many jobs were on this node.
  absl::StatusOr<uint32_t> Pause(absl::Duration time, bool now);
  absl::Status Resume();

  // `progress` is told the bytes sent so far.
  absl::StatusOr<UploadResult> Upload(const std::string& manifest_name, std::vector<UploadFile> files,
                                      const std::function<void(uint64_t)>& progress);
  absl::StatusOr<JobPlan> Plan(const PlanRequest& request);
  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request);
  absl::StatusOr<std::vector<Job>> ListJobs();
  absl::StatusOr<Job> GetJob(const std::string& job);
  // Does not wait; errors come from the watch's Finish(). The client outlives the watch.
  std::unique_ptr<JobWatch> WatchJob(const WatchRequest& request);
  absl::Status CancelJob(const std::string& job);
  absl::StatusOr<Explanation> Explain(const std::string& what);
  // Of the checkpoint after so many rounds; 0: of the newest parameters. Gives how many rounds made them.
  absl::StatusOr<uint64_t> Export(const std::string& job, ExportSink& sink, uint64_t checkpoint = 0);
  absl::StatusOr<CheckpointList> ListCheckpoints(const std::string& job);
  // Of the daemon's own copy. It has no timeout: all of the checkpoint is read.
  absl::StatusOr<CheckpointCheck> VerifyCheckpoint(const std::string& job, uint64_t round);
  absl::Status RemoveCheckpoint(const std::string& job, uint64_t round);  // the daemon's own copy
  absl::Status RollBackJob(const std::string& job, uint64_t round, const std::string& reason);
  // An error of `on_text` ends the sampling, and is returned.
  absl::StatusOr<GenerateResult> Generate(const GenerateRequest& request,
                                          const std::function<absl::Status(const std::string&)>& on_text);

  absl::StatusOr<std::string> RotateKey();                           // the new node id
  absl::StatusOr<std::string> Backup(const std::string& passphrase);  // the sealed archive

 private:
  friend class JobWatch;
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gdf::control

#endif  // GDF_CORE_CONTROL_CLIENT_H_
