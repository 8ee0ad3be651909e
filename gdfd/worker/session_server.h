// The worker's end of a session: answers the daemon's requests one after the other
// (docs/formats/worker-protocol.md, core/train/worker_session.h). Free of libtorch's headers.
#ifndef GDF_GDFD_WORKER_SESSION_SERVER_H_
#define GDF_GDFD_WORKER_SESSION_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/flat_buffer.h"
#include "core/train/device_list.h"
#include "core/train/message_socket.h"
#include "core/train/shared_segment.h"
#include "core/train/worker_session.h"
#include "cuda/loader.h"
#include "gdfd/worker/deltas.h"
#include "gdfd/worker/loaded_job.h"
#include "gdfd/worker/trainer.h"

namespace gdf::worker {

struct SessionOptions {
  int default_threads = 1;              // when neither the daemon nor the job says
  std::vector<train::GpuDevice> gpus;   // that are open
  std::shared_ptr<cuda::Session> packer;  // of the first of gpus; null: deltas are packed on the CPU
  std::shared_ptr<cuda::Group> group;   // of several gpus; null: they do without
  std::function<double()> now_seconds;  // of a monotonic clock
};

// Not thread-safe.
class SessionServer {
 public:
  SessionServer(train::MessageSocket& socket, SessionOptions options)
      : socket_(socket), options_(std::move(options)) {}

  // Serves until the daemon closes the socket (OK) or breaks the protocol.
  absl::Status Serve();

 private:
  using Reply = absl::StatusOr<train::Message>;
  using Handler = Reply (SessionServer::*)(train::Message&);

  static Handler FindHandler(std::string_view op);
  Reply Answer(train::Message& request);
  absl::Status SendEvent(std::string_view event, nlohmann::json body);

  Reply Input(train::Message& request);
  Reply Load(train::Message& request);
  Reply Segment(train::Message& request);
  Reply Read(train::Message& request);
  Reply Apply(train::Message& request);
  Reply Run(train::Message& request);
  Reply Emit(train::Message& request);
  Reply Settle(train::Message& request);
  Reply Evaluate(train::Message& request);
  Reply Save(train::Message& request);
  Reply Restore(train::Message& request);
  Reply Generate(train::Message& request);
  Reply Export(train::Message& request);

  absl::Status CreateModel(const train::LoadRequest& request);
  std::string DeviceName(const ModelOptions& model) const;
  absl::Status RestorePiece(uint64_t offset, absl::Span<const uint8_t> piece);
  absl::Status ForgetInnerState();
  uint64_t state_bytes() const;  // of a saved state
  absl::Status RequireTrainer(std::string_view what) const;
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const std::string& prompt) const;
  LanguageModel& model() { return trainer_ ? trainer_->model() : *sampled_; }

  train::MessageSocket& socket_;
  const SessionOptions options_;
  uint64_t request_id_ = 0;  // of the request being answered

  InputFiles inputs_;
  std::optional<LoadedJob> job_;
  std::unique_ptr<Trainer> trainer_;          // of a job with data
  std::unique_ptr<LanguageModel> sampled_;    // of one without
  std::optional<train::SharedSegment> window_;
  std::optional<Deltas> deltas_;              // beside trainer_
  uint64_t restored_ = 0;  // bytes of a state that is being restored, 0 when none is
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_SESSION_SERVER_H_
