#include "core/rounds/state_transfer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/rounds/job_member.h"

namespace gdf::rounds {
namespace {

constexpr size_t kFrameBytes = size_t{1} << 20;

Task<absl::Status> SendBytes(net::Stream& stream, absl::Span<const uint8_t> bytes,
                             checkpoint::OuterStatePtr owner) {
  for (size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    const size_t length = std::min(kFrameBytes, bytes.size() - at);
    const absl::Status sent = co_await stream.Send(Buffer::Wrap(bytes.subspan(at, length), owner));
    GDF_CO_RETURN_IF_ERROR(sent);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> ReceiveBytes(net::Stream& stream, absl::Span<uint8_t> bytes, absl::Duration timeout) {
  for (size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    const size_t length = std::min(kFrameBytes, bytes.size() - at);
    absl::StatusOr<std::optional<Buffer>> frame = co_await stream.Receive(timeout);
    GDF_CO_RETURN_IF_ERROR(frame.status());
    if (!frame->has_value() || (*frame)->size() != length) {
      co_return absl::InvalidArgumentError(absl::StrCat("a frame of the state is not ", length, " bytes"));
    }
    std::memcpy(bytes.data() + at, (*frame)->span().data(), length);
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<OuterStateDraft>> Fetch(const RoundEnv& env, wire::StateId target, uint64_t num_momentum,
                                            NodeId source) {
  const uint64_t num_params = env.loaded.layout.num_params();
  auto state = std::make_shared<checkpoint::OuterState>();
  state->id = target;
  GDF_CO_ASSIGN_OR_RETURN(state->theta, tensor::FlatBuffer::Zeros(num_params));
  GDF_CO_ASSIGN_OR_RETURN(state->momentum, tensor::FlatBuffer::Zeros(num_momentum));
  absl::StatusOr<std::unique_ptr<net::Stream>> stream = co_await env.transport.Open(
      source, JobMember::StateMethod(env.job), net::Priority::kBulk, env.timings.call);
  GDF_CO_RETURN_IF_ERROR(stream.status());
  wire::FetchState fetch{env.job, target};
  const absl::Status asked = co_await (*stream)->Send(wire::EncodeFetchState(fetch));
  GDF_CO_RETURN_IF_ERROR(asked);
  (*stream)->Finish();
  const absl::Status theta =
      co_await ReceiveBytes(**stream, tensor::AsMutableBytes(state->theta.span()), env.timings.call);
  GDF_CO_RETURN_IF_ERROR(theta);
  const absl::Status momentum =
      co_await ReceiveBytes(**stream, tensor::AsMutableBytes(state->momentum.span()), env.timings.call);
  GDF_CO_RETURN_IF_ERROR(momentum);
  auto verify = [state] { return checkpoint::VerifyDigests(*state); };
  const absl::Status verified = co_await RunOn(env.pool, env.executor, std::move(verify));
  GDF_CO_RETURN_IF_ERROR(verified);
  co_return state;
}

}  // namespace

Task<absl::Status> SendState(net::Stream& stream, checkpoint::OuterStatePtr state) {
  const absl::Status theta = co_await SendBytes(stream, tensor::AsBytes(state->theta.span()), state);
  GDF_CO_RETURN_IF_ERROR(theta);
  const absl::Status momentum = co_await SendBytes(stream, tensor::AsBytes(state->momentum.span()), state);
  co_return momentum;
}

Task<absl::StatusOr<OuterStateDraft>> FetchState(const RoundEnv& env, wire::StateId target, uint64_t num_momentum,
                                                 NodeId source) {
  absl::StatusOr<OuterStateDraft> state = co_await Fetch(env, target, num_momentum, source);
  if (!state.ok()) {
    co_return Annotate(state.status(), absl::StrCat("fetching round ", target.round.value, " from node ", source.Short()));
  }
  co_return state;
}

}  // namespace gdf::rounds
