#include "core/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/encoding.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"

namespace gdf::checkpoint {
namespace {

constexpr char kState[] = "state";
constexpr char kPrepared[] = "prepared";
constexpr char kCommitted[] = "committed";
constexpr char kWorker[] = "worker";
constexpr char kEpoch[] = "epoch";
constexpr char kPrevious[] = "previous-epoch";
constexpr char kAttempts[] = "attempts";
constexpr char kTemporary[] = ".tmp-";  // in the name of a file that is being written
constexpr size_t kRoundDigits = 16;
constexpr char kStateMagic[] = "GDFSTA1\n";  // 8 bytes without the terminator
constexpr size_t kMagicBytes = 8;
// magic, round, num_params, momentum length, cursor (2), two digests, digest of all before
constexpr size_t kStateHeaderBytes = kMagicBytes + 5 * 8 + 3 * Digest::kSize;
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr uint64_t kMaxReceiptBytes = uint64_t{1} << 20;

void PutU64(uint64_t value, std::string* out) {
  for (int i = 0; i < 8; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t GetU64(const uint8_t* in) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= uint64_t{in[i]} << (8 * i);
  return value;
}

Digest GetDigest(const uint8_t* in) {
  Digest digest;
  std::memcpy(digest.bytes.data(), in, Digest::kSize);
  return digest;
}

std::string EncodeHeader(const OuterState& state) {
  std::string header(kStateMagic, kMagicBytes);
  PutU64(state.id.round.value, &header);
  PutU64(state.theta.size(), &header);
  PutU64(state.momentum.size(), &header);
  PutU64(static_cast<uint64_t>(state.id.cursor.epoch), &header);
  PutU64(static_cast<uint64_t>(state.id.cursor.position), &header);
  header.append(AsString(state.id.theta.span()));
  header.append(AsString(state.id.momentum.span()));
  header.append(AsString(HashBytes(std::string_view(header)).span()));
  return header;
}

absl::Status AppendPieces(WritableFile& file, absl::Span<const uint8_t> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    GDF_RETURN_IF_ERROR(file.Append(bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at))));
  }
  return absl::OkStatus();
}

struct StateHeader {
  wire::StateId id;
  uint64_t num_theta = 0;
  uint64_t num_momentum = 0;
};

absl::StatusOr<StateHeader> ReadHeader(ReadableFile& file, const std::string& path) {
  if (file.size() < kStateHeaderBytes) return Damaged(path, "truncated");
  uint8_t bytes[kStateHeaderBytes];
  GDF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  const size_t checked = kStateHeaderBytes - Digest::kSize;
  if (std::memcmp(bytes, kStateMagic, kMagicBytes) != 0) return Damaged(path, "not a state of this version");
  if (HashBytes(absl::MakeConstSpan(bytes, checked)) != GetDigest(bytes + checked)) {
    return Damaged(path, "header checksum does not match");
  }
  const uint8_t* at = bytes + kMagicBytes;
  StateHeader header;
  header.id.round = RoundId{GetU64(at)};
  header.num_theta = GetU64(at + 8);
  header.num_momentum = GetU64(at + 16);
  header.id.cursor.epoch = static_cast<int64_t>(GetU64(at + 24));
  header.id.cursor.position = static_cast<int64_t>(GetU64(at + 32));
  header.id.theta = GetDigest(at + 40);
  header.id.momentum = GetDigest(at + 40 + Digest::kSize);
  return header;
}

std::string PathOf(const std::string& folder, const char* kind, RoundId round) {
  return absl::StrFormat("%s/%s-%0*d", folder, kind, static_cast<int>(kRoundDigits), round.value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> OpenWorker(FileSystem& files, const std::string& folder, RoundId round) {
  return RecordFile::Open(files, PathOf(folder, kWorker, round));
}

std::string CheckpointStore::Path(const char* kind, RoundId round) const {
  return PathOf(options_.folder, kind, round);
}

std::string CheckpointStore::Path(const char* name) const { return absl::StrCat(options_.folder, "/", name); }

std::vector<RoundId> CheckpointStore::Rounds(const char* kind, std::vector<std::string>* damage) {
  std::vector<RoundId> rounds;
  auto names = files_.List(options_.folder);
  if (!names.ok()) return rounds;
  const std::string prefix = absl::StrCat(kind, "-");
  for (const std::string& name : *names) {
    if (name.compare(0, prefix.size(), prefix) != 0 || name.find(kTemporary) != std::string::npos) continue;
    uint64_t value = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || name.size() != prefix.size() + kRoundDigits) {
      if (damage != nullptr) damage->push_back(absl::StrCat(options_.folder, "/", name, ": not a round number"));
      continue;
    }
    rounds.push_back(RoundId{value});
  }
  std::sort(rounds.rbegin(), rounds.rend());
  return rounds;
}

absl::Status CheckpointStore::WriteState(const OuterState& state) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.Create(Path(kState, state.id.round)));
  GDF_RETURN_IF_ERROR(file->Append(AsBytes(EncodeHeader(state))));
  GDF_RETURN_IF_ERROR(AppendPieces(*file, tensor::AsBytes(state.theta.span())));
  GDF_RETURN_IF_ERROR(AppendPieces(*file, tensor::AsBytes(state.momentum.span())));
  return file->Commit();
}

absl::StatusOr<OuterStateDraft> CheckpointStore::ReadState(RoundId round, Parts parts) {
  const std::string path = Path(kState, round);
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForRead(path));
  GDF_ASSIGN_OR_RETURN(const StateHeader header, ReadHeader(*file, path));
  if (header.id.round != round) return Damaged(path, "is of another round");
  if (header.num_theta != options_.num_params) {
    return Damaged(path, absl::StrCat("has ", header.num_theta, " parameters, expected ", options_.num_params));
  }
  const uint64_t floats = (file->size() - kStateHeaderBytes) / sizeof(float);
  if (header.num_theta > floats || header.num_momentum != floats - header.num_theta) {
    return Damaged(path, "truncated");
  }
  auto state = std::make_shared<OuterState>();
  state->id = header.id;
  GDF_ASSIGN_OR_RETURN(state->theta, tensor::FlatBuffer::Zeros(header.num_theta));
  if (parts == Parts::kAll) {
    GDF_ASSIGN_OR_RETURN(state->momentum, tensor::FlatBuffer::Zeros(header.num_momentum));
  }
  const absl::Span<uint8_t> theta = tensor::AsMutableBytes(state->theta.span());
  GDF_RETURN_IF_ERROR(file->ReadAt(kStateHeaderBytes, theta));
  GDF_RETURN_IF_ERROR(
      file->ReadAt(kStateHeaderBytes + theta.size(), tensor::AsMutableBytes(state->momentum.span())));
  GDF_RETURN_IF_ERROR(Annotate(parts == Parts::kAll ? VerifyDigests(*state) : VerifyTheta(*state), path));
  return state;
}

bool CheckpointStore::Holds(const wire::StateId& id) {
  const std::string path = Path(kState, id.round);
  auto file = files_.OpenForRead(path);
  if (!file.ok()) return false;
  auto header = ReadHeader(**file, path);
  return header.ok() && header->id == id;
}

void CheckpointStore::RemoveLeftovers() {
  auto names = files_.List(options_.folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.find(kTemporary) != std::string::npos) files_.Remove(Path(name.c_str())).IgnoreError();
  }
}

absl::StatusOr<Loaded> CheckpointStore::Load(std::optional<RoundId> before) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  GDF_RETURN_IF_ERROR(files_.SyncFolder(options_.folder));
  Loaded loaded;
  LoadCommitted(Parts::kAll, before, &loaded);
  if (loaded.committed != nullptr) {
    LoadPrepared(&loaded);
    LoadWorker(&loaded);
  }
  loaded.epoch = LoadEpoch(kEpoch, &loaded);
  loaded.previous = LoadEpoch(kPrevious, &loaded);
  // The previous epoch is written first: without the newer one it is still the one last entered.
  const bool older = loaded.epoch && loaded.previous && loaded.previous->epoch < loaded.epoch->epoch;
  if (!older) loaded.previous.reset();
  return loaded;
}

absl::StatusOr<Loaded> CheckpointStore::LoadTheta() {
  Loaded loaded;
  LoadCommitted(Parts::kTheta, std::nullopt, &loaded);
  if (loaded.committed == nullptr && !loaded.damage.empty()) return absl::DataLossError(loaded.damage.front());
  return loaded;
}

std::optional<wire::EpochRecord> CheckpointStore::LoadEpoch(const char* name, Loaded* loaded) {
  const std::string path = Path(name);
  if (!files_.Exists(path)) return std::nullopt;
  auto record = ReadRecord(files_, path, kMaxReceiptBytes);
  absl::StatusOr<wire::EpochRecord> epoch = record.ok() ? wire::DecodeEpochRecord(record->span()) : record.status();
  if (epoch.ok()) return *std::move(epoch);
  loaded->damage.push_back(record.ok() ? absl::StrCat(path, ": ", epoch.status().message())
                                       : std::string(record.status().message()));
  return std::nullopt;
}

void CheckpointStore::LoadCommitted(Parts parts, std::optional<RoundId> before, Loaded* loaded) {
  for (const RoundId round : Rounds(kCommitted, &loaded->damage)) {
    if (before && round >= *before) continue;
    const std::string path = Path(kCommitted, round);
    auto record = ReadRecord(files_, path, kMaxReceiptBytes);
    if (!record.ok()) {
      loaded->damage.push_back(std::string(record.status().message()));
      continue;
    }
    std::optional<wire::Commit> commit;
    if (!record->empty()) {
      auto decoded = wire::DecodeCommit(record->span());
      if (!decoded.ok()) {
        loaded->damage.push_back(absl::StrCat(path, ": ", decoded.status().message()));
        continue;
      }
      commit = *std::move(decoded);
    }
    auto state = ReadState(round, parts);
    if (state.ok() && commit && !(commit->receipt.result == (*state)->id)) {
      state = Damaged(Path(kState, round), "is not the state that its receipt names");
    }
    if (!state.ok()) {
      loaded->damage.push_back(std::string(state.status().message()));
      continue;
    }
    loaded->committed = *std::move(state);
    loaded->commit = std::move(commit);
    return;
  }
}

void CheckpointStore::LoadPrepared(Loaded* loaded) {
  const RoundId round = loaded->committed->id.round.next();
  const std::string path = Path(kPrepared, round);
  if (!files_.Exists(path)) return;
  auto record = ReadRecord(files_, path, kMaxReceiptBytes);
  absl::StatusOr<wire::Receipt> receipt = record.ok() ? wire::DecodeReceipt(record->span()) : record.status();
  if (!receipt.ok()) {
    loaded->damage.push_back(std::string(Annotate(receipt.status(), path).message()));
    return;
  }
  auto shadow = ReadState(round, Parts::kAll);
  if (shadow.ok() && !(receipt->result == (*shadow)->id)) {
    shadow = Damaged(Path(kState, round), "is not the state that its receipt names");
  }
  if (!shadow.ok()) {
    loaded->damage.push_back(std::string(shadow.status().message()));
    return;
  }
  loaded->prepared = *std::move(receipt);
  loaded->shadow = *std::move(shadow);
}

void CheckpointStore::LoadWorker(Loaded* loaded) {
  for (const RoundId round : Rounds(kWorker, &loaded->damage)) {
    if (round > loaded->committed->id.round) continue;
    auto state = RecordFile::Open(files_, Path(kWorker, round));
    if (!state.ok()) {
      loaded->damage.push_back(std::string(state.status().message()));
      continue;
    }
    loaded->worker = *std::move(state);
    loaded->worker_round = round;
    return;
  }
}

absl::Status CheckpointStore::Prepare(const OuterState& shadow, const wire::Receipt& receipt) {
  const std::string path = Path(kPrepared, shadow.id.round);
  if (!Holds(shadow.id)) {
    // A receipt of an earlier attempt must not be left beside another attempt's state. One of the same state stays until
    // it is replaced: it may be among those that commit the round.
    if (files_.Exists(path)) GDF_RETURN_IF_ERROR(files_.Remove(path));
    GDF_RETURN_IF_ERROR(WriteState(shadow));
  }
  return WriteRecord(files_, path, AsBytes(wire::EncodeReceipt(receipt)));
}

absl::Status CheckpointStore::Commit(const OuterState& state, const std::optional<wire::Commit>& commit) {
  if (!Holds(state.id)) GDF_RETURN_IF_ERROR(WriteState(state));
  const std::string record = commit ? wire::EncodeCommit(*commit) : std::string();
  GDF_RETURN_IF_ERROR(WriteRecord(files_, Path(kCommitted, state.id.round), AsBytes(record)));
  Prune(state.id.round);
  return absl::OkStatus();
}

// Commits first: what is left by a crash in between is no state.
absl::Status CheckpointStore::Discard() {
  for (const char* kind : {kCommitted, kPrepared, kState, kWorker}) {
    for (const RoundId round : Rounds(kind, nullptr)) GDF_RETURN_IF_ERROR(files_.Remove(Path(kind, round)));
  }
  return absl::OkStatus();
}

bool CheckpointStore::HasMomentum(RoundId round) {
  const std::string path = Path(kState, round);
  auto file = files_.OpenForRead(path);
  if (!file.ok()) return true;
  auto header = ReadHeader(**file, path);
  return !header.ok() || header->num_momentum != 0;
}

// The others go before the state is written again: that takes room.
absl::Status CheckpointStore::KeepThetaOnly() {
  RemoveLeftovers();
  for (const RoundId round : Rounds(kWorker, nullptr)) files_.Remove(Path(kWorker, round)).IgnoreError();
  const std::vector<RoundId> committed = Rounds(kCommitted, nullptr);
  Loaded loaded;
  if (!committed.empty() && (committed.size() > 1 || HasMomentum(committed[0]))) LoadCommitted(Parts::kTheta, std::nullopt, &loaded);
  if (!loaded.damage.empty()) return absl::DataLossError(absl::StrJoin(loaded.damage, "; "));
  std::vector<std::string> kept;
  if (!committed.empty()) kept = {Path(kCommitted, committed[0]), Path(kState, committed[0])};
  const absl::StatusOr<std::vector<std::string>> names = files_.List(options_.folder);
  if (!names.ok()) return absl::IsNotFound(names.status()) ? absl::OkStatus() : names.status();
  for (const std::string& name : *names) {
    const std::string path = Path(name.c_str());
    if (std::find(kept.begin(), kept.end(), path) == kept.end()) GDF_RETURN_IF_ERROR(files_.Remove(path));
  }
  return loaded.committed != nullptr && HasMomentum(committed[0]) ? WriteState(*loaded.committed) : absl::OkStatus();
}

absl::Status CheckpointStore::SaveEpoch(const wire::EpochRecord& record,
                                        const std::optional<wire::EpochRecord>& previous) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  if (previous) GDF_RETURN_IF_ERROR(WriteRecord(files_, Path(kPrevious), AsBytes(wire::EncodeEpochRecord(*previous))));
  return WriteRecord(files_, Path(kEpoch), AsBytes(wire::EncodeEpochRecord(record)));
}

absl::Status CheckpointStore::ForgetPrevious() {
  const std::string path = Path(kPrevious);
  return files_.Exists(path) ? files_.Remove(path) : absl::OkStatus();
}

absl::StatusOr<uint32_t> CheckpointStore::ReserveAttempts(Epoch epoch, uint32_t after, uint32_t count) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  const std::string path = Path(kAttempts);
  uint64_t next = 0;
  if (files_.Exists(path)) {
    GDF_ASSIGN_OR_RETURN(const Buffer record, ReadRecord(files_, path, kMaxReceiptBytes));
    if (record.size() != 16) return Damaged(path, "is not an epoch and a number");
    if (GetU64(record.span().data()) == epoch.value) next = GetU64(record.span().data() + 8);
  }
  next = std::max(next, uint64_t{after} + 1);
  if (next + count > std::numeric_limits<uint32_t>::max()) {
    return absl::OutOfRangeError(absl::StrCat("epoch ", epoch.value, " has had ", next, " attempts; open another epoch"));
  }
  std::string record;
  PutU64(epoch.value, &record);
  PutU64(next + count, &record);
  GDF_RETURN_IF_ERROR(WriteRecord(files_, path, AsBytes(record)));
  return static_cast<uint32_t>(next);
}

absl::StatusOr<std::unique_ptr<RecordWriter>> CheckpointStore::SaveWorker(RoundId round) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  return RecordWriter::Create(files_, Path(kWorker, round));
}

// Removal is tidying: what cannot be removed now is removed after a later commit.
void CheckpointStore::Prune(RoundId newest) {
  std::vector<RoundId> kept;
  for (const RoundId round : Rounds(kCommitted, nullptr)) {
    // States of rounds after `newest` are of a history that was rolled back.
    const bool keep = round <= newest && kept.size() < static_cast<size_t>(std::max(options_.keep, 1));
    if (keep) {
      kept.push_back(round);
    } else {
      files_.Remove(Path(kCommitted, round)).IgnoreError();
    }
  }
  const auto kept_round = [&](RoundId round) {
    return std::find(kept.begin(), kept.end(), round) != kept.end();
  };
  for (const RoundId round : Rounds(kPrepared, nullptr)) files_.Remove(Path(kPrepared, round)).IgnoreError();
  for (const RoundId round : Rounds(kState, nullptr)) {
    if (!kept_round(round)) files_.Remove(Path(kState, round)).IgnoreError();
  }
  // The newest inner state stays until the one of this round is there.
  bool newest_worker = true;
  for (const RoundId round : Rounds(kWorker, nullptr)) {
    if (round > newest || !(newest_worker || kept_round(round))) {
      files_.Remove(Path(kWorker, round)).IgnoreError();
    } else {
      newest_worker = false;
    }
  }
}

}  // namespace gdf::checkpoint
