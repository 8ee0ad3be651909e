#include "gdfd/jobs/artifacts.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/byte_io.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint_store.h"
#include "core/checkpoint/record.h"
#include "core/tensor/layout.h"
#include "core/train/export_files.h"

namespace gdf::jobs {
namespace {

constexpr char kLayoutFile[] = "gdf-layout.json";  // sent with the side files; not part of an export
constexpr char kSaved[] = "artifacts";              // in the job's folder
// What is larger could not be sent.
constexpr uint64_t kMaxSavedBytes = wire::kMaxArtifactFileBytes;
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr absl::Duration kTimeout = absl::Seconds(60);  // for one message

std::string SavedFile(const std::string& folder) { return absl::StrCat(folder, "/", kSaved); }

absl::Status SetLayout(train::ExportPlan& plan, std::string_view json) {
  GDF_ASSIGN_OR_RETURN(plan.layout, tensor::Layout::FromJson(json));
  return absl::OkStatus();
}

// What SaveExportPlan wrote.
struct Saved {
  train::ExportPlan plan;
  uint64_t num_params = 0;
};

absl::StatusOr<Saved> ParseSaved(std::string_view record) {
  ByteReader in(record);
  Saved saved;
  saved.num_params = in.U64();
  GDF_RETURN_IF_ERROR(SetLayout(saved.plan, in.Bytes(in.U32())));
  while (in.ok() && in.left() > 0) {
    std::string name(in.Bytes(in.U8()));
    saved.plan.files.push_back({std::move(name), Buffer(std::string(in.Bytes(in.U64())))});
  }
  if (!in.ok()) return absl::InvalidArgumentError("the files of an export are cut short");
  return saved;
}

absl::StatusOr<Saved> ReadSaved(FileSystem& files, const std::string& folder) {
  GDF_ASSIGN_OR_RETURN(const Buffer record, ReadSideFiles(files, folder));
  absl::StatusOr<Saved> saved = ParseSaved(record.view());
  if (!saved.ok()) return checkpoint::Damaged(SavedFile(folder), saved.status().message());
  return saved;
}

checkpoint::CheckpointStore StoreOf(FileSystem& files, const std::string& folder,
                                    uint64_t num_params) {
  return checkpoint::CheckpointStore(files,
                                     {.folder = folder + "/state", .num_params = num_params});
}

// A stream waits for its peer's window without a limit.
Task<absl::Status> SendPiece(Executor& executor, net::Stream& stream, Buffer piece) {
  const Executor::TimerId timer = executor.PostAfter(kTimeout, [&stream] {
    stream.Cancel(absl::DeadlineExceededError(
        absl::StrCat("no piece of the result was taken for ", HumanDuration(kTimeout))));
  });
  const auto done = absl::MakeCleanup([&executor, timer] { executor.Cancel(timer); });
  co_return co_await stream.Send(std::move(piece));
}

Task<absl::Status> SendBytes(Executor& executor, net::Stream& stream,
                             absl::Span<const uint8_t> bytes, std::shared_ptr<const void> owner) {
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const size_t length = std::min(kPieceBytes, bytes.size() - at);
    Buffer piece = Buffer::Wrap(bytes.subspan(at, length), owner);
    GDF_CO_RETURN_IF_ERROR(co_await SendPiece(executor, stream, std::move(piece)));
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> ReceivePiece(net::Stream& stream, uint64_t at_most) {
  absl::StatusOr<std::optional<Buffer>> piece = co_await stream.Receive(kTimeout);
  GDF_CO_RETURN_IF_ERROR(piece.status());
  if (!piece->has_value()) co_return absl::DataLossError("the result ends early");
  if ((*piece)->empty() || (*piece)->size() > at_most) {
    co_return absl::DataLossError("a piece of the result has a wrong size");
  }
  co_return **std::move(piece);
}

Task<absl::Status> ReceiveBytes(net::Stream& stream, absl::Span<uint8_t> out) {
  while (!out.empty()) {
    GDF_CO_ASSIGN_OR_RETURN(Buffer piece, co_await ReceivePiece(stream, out.size()));
    std::memcpy(out.data(), piece.span().data(), piece.size());
    out.remove_prefix(piece.size());
  }
  co_return absl::OkStatus();
}

// Memory is taken as bytes arrive: the peer's word about their number is not enough to take it.
Task<absl::StatusOr<tensor::FlatBuffer>> ReceiveTheta(net::Stream& stream, uint64_t num_params) {
  std::deque<Buffer> pieces;
  for (uint64_t left = num_params * sizeof(float); left > 0; left -= pieces.back().size()) {
    GDF_CO_ASSIGN_OR_RETURN(Buffer piece, co_await ReceivePiece(stream, left));
    pieces.push_back(std::move(piece));
  }
  GDF_CO_ASSIGN_OR_RETURN(tensor::FlatBuffer theta, tensor::FlatBuffer::Zeros(num_params));
  absl::Span<uint8_t> out = tensor::AsMutableBytes(theta.span());
  for (; !pieces.empty(); pieces.pop_front()) {
    std::memcpy(out.data(), pieces.front().span().data(), pieces.front().size());
    out.remove_prefix(pieces.front().size());
  }
  co_return theta;
}

}  // namespace

absl::Status SaveExportPlan(FileSystem& files, const std::string& folder,
                            const train::ExportPlan& plan, uint64_t num_params) {
  ByteWriter out;
  const std::string layout = plan.layout.ToJson();
  out.U64(num_params).U32(static_cast<uint32_t>(layout.size())).Bytes(layout);
  for (const train::ExportPlan::File& file : plan.files) {
    out.U8(static_cast<uint8_t>(file.name.size())).Bytes(file.name);
    out.U64(file.contents.size()).Bytes(file.contents.view());
  }
  const std::string payload = out.Take();
  if (payload.size() > kMaxSavedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the files beside the weights have ", HumanBytes(payload.size()),
                     ", at most ", HumanBytes(kMaxSavedBytes), " are kept and sent"));
  }
  GDF_RETURN_IF_ERROR(files.MakeFolders(folder, 0700));
  return checkpoint::WriteRecord(files, SavedFile(folder), AsBytes(payload));
}

absl::StatusOr<Buffer> ReadSideFiles(FileSystem& files, const std::string& folder) {
  return checkpoint::ReadRecord(files, SavedFile(folder), kMaxSavedBytes);
}

absl::StatusOr<train::ExportPlan> ParseSideFiles(const Buffer& side_files) {
  GDF_ASSIGN_OR_RETURN(Saved saved, ParseSaved(side_files.view()));
  return std::move(saved.plan);
}

absl::Status RemoveUnfinishedSaves(FileSystem& files, const std::string& jobs_folder) {
  const absl::StatusOr<std::vector<std::string>> jobs = files.List(jobs_folder);
  if (absl::IsNotFound(jobs.status())) return absl::OkStatus();
  GDF_RETURN_IF_ERROR(jobs.status());
  for (const std::string& job : *jobs) {
    const std::string folder = absl::StrCat(jobs_folder, "/", job);
    const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
    if (absl::IsNotFound(names.status())) continue;  // no folder
    GDF_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (!absl::StartsWith(name, absl::StrCat(kSaved, ".tmp-"))) continue;
      GDF_RETURN_IF_ERROR(files.Remove(absl::StrCat(folder, "/", name)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Artifacts> LoadArtifacts(FileSystem& files, const std::string& folder) {
  GDF_ASSIGN_OR_RETURN(Saved saved, ReadSaved(files, folder));
  GDF_ASSIGN_OR_RETURN(checkpoint::Loaded loaded,
                       StoreOf(files, folder, saved.num_params).LoadTheta());
  if (loaded.committed == nullptr) return absl::NotFoundError("no round is committed yet");
  Artifacts artifacts;
  artifacts.plan = std::move(saved.plan);
  artifacts.state = std::move(loaded.committed);
  artifacts.commit = std::move(loaded.commit);
  artifacts.passed_over = absl::StrJoin(loaded.damage, "; ");
  return artifacts;
}

absl::Status KeepArtifactsOnly(FileSystem& files, const std::string& folder) {
  const absl::StatusOr<Saved> saved = ReadSaved(files, folder);
  if (absl::IsNotFound(saved.status())) return absl::OkStatus();  // it never began here
  GDF_RETURN_IF_ERROR(saved.status());
  return StoreOf(files, folder, saved->num_params).KeepThetaOnly();
}

Task<absl::Status> SendArtifacts(Executor& executor, net::Stream& stream,
                                 std::shared_ptr<const Artifacts> artifacts) {
  wire::ArtifactHeader header;
  const auto layout = std::make_shared<const std::string>(artifacts->plan.layout.ToJson());
  header.files.push_back({kLayoutFile, layout->size()});
  for (const train::ExportPlan::File& file : artifacts->plan.files)
    header.files.push_back({file.name, file.contents.size()});
  header.num_params = artifacts->state->theta.size();
  header.round = artifacts->state->id.round;
  header.theta = artifacts->state->id.theta;
  header.commit = artifacts->commit;
  Buffer first(wire::Encode(header));
  GDF_CO_RETURN_IF_ERROR(co_await SendPiece(executor, stream, std::move(first)));
  GDF_CO_RETURN_IF_ERROR(
      co_await SendBytes(executor, stream, AsBytes(std::string_view(*layout)), layout));
  for (const train::ExportPlan::File& file : artifacts->plan.files) {
    GDF_CO_RETURN_IF_ERROR(co_await SendBytes(executor, stream, file.contents.span(), artifacts));
  }
  GDF_CO_RETURN_IF_ERROR(co_await SendBytes(
      executor, stream, tensor::AsBytes(artifacts->state->theta.span()), artifacts));
  stream.Finish();
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> FetchArtifacts(net::Transport& transport,
                                                                      ComputePool& pool, NodeId peer,
                                                                      wire::ArtifactCall call) {
  GDF_CO_ASSIGN_OR_RETURN(
      std::unique_ptr<net::Stream> stream,
      co_await transport.Open(peer, "jobs.artifacts", net::Priority::kBulk, kTimeout));
  GDF_CO_RETURN_IF_ERROR(co_await stream->Send(Buffer(wire::Encode(call))));
  absl::StatusOr<std::optional<Buffer>> first = co_await stream->Receive(kTimeout);
  GDF_CO_RETURN_IF_ERROR(first.status());
  if (!first->has_value()) co_return absl::DataLossError("no answer");
  GDF_CO_ASSIGN_OR_RETURN(wire::ArtifactHeader header,
                          wire::DecodeArtifactHeader((*first)->view()));

  auto artifacts = std::make_shared<Artifacts>();
  for (const wire::ArtifactFile& file : header.files) {
    std::vector<uint8_t> contents(file.size);
    GDF_CO_RETURN_IF_ERROR(co_await ReceiveBytes(*stream, absl::MakeSpan(contents)));
    if (file.name == kLayoutFile) {
      GDF_CO_RETURN_IF_ERROR(SetLayout(artifacts->plan, AsString(contents)));
    } else {
      GDF_CO_RETURN_IF_ERROR(train::CheckExportFile(file.name, AsString(contents)));
      artifacts->plan.files.push_back({file.name, Buffer(std::move(contents))});
    }
  }
  auto state = std::make_shared<checkpoint::OuterState>();
  state->id.round = header.round;
  state->id.theta = header.theta;
  GDF_CO_ASSIGN_OR_RETURN(state->theta, co_await ReceiveTheta(*stream, header.num_params));
  auto verify = [state] { return checkpoint::VerifyDigests(*state); };
  absl::Status verified = co_await RunOn(pool, transport.executor(), std::move(verify));
  GDF_CO_RETURN_IF_ERROR(verified);
  artifacts->state = std::move(state);
  artifacts->commit = std::move(header.commit);
  co_return std::shared_ptr<const Artifacts>(std::move(artifacts));
}

}  // namespace gdf::jobs
