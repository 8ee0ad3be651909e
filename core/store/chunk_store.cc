#include "core/store/chunk_store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/check.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::store {
namespace {

constexpr std::string_view kPinMagic = "GDFPIN1";
constexpr size_t kMaxOwnerBytes = 64;

absl::Status CheckOwner(std::string_view owner) {
  bool good = !owner.empty() && owner.size() <= kMaxOwnerBytes;
  for (const char c : owner) good = good && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", ToAbsl(owner), "' cannot own chunks: expected 1 to 64 of a-z, 0-9 and '-'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkStore>> ChunkStore::Open(FileSystem& files, Options options) {
  std::unique_ptr<ChunkStore> store(new ChunkStore(files, std::move(options)));
  GDF_RETURN_IF_ERROR(files.MakeFolders(store->options_.folder));
  GDF_RETURN_IF_ERROR(store->Load());
  GDF_RETURN_IF_ERROR(store->LoadPins());
  std::vector<ChunkId> evicted;
  {
    absl::MutexLock lock(&store->mutex_);
    // The cap may have been lowered. When pinned chunks alone exceed it, only new ones are refused.
    absl::StatusOr<std::vector<ChunkId>> over = store->Reserve(0);
    if (over.ok()) evicted = *std::move(over);
  }
  GDF_RETURN_IF_ERROR(store->DeleteFiles(evicted));
  return store;
}

absl::Status ChunkStore::Load() {
  GDF_ASSIGN_OR_RETURN(const std::vector<std::string> folders, files_.List(options_.folder));
  for (const std::string& folder : folders) {
    if (folder.size() != 2 || !HexDecode(folder).ok()) continue;
    const std::string path = absl::StrCat(options_.folder, "/", folder);
    GDF_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path));
    for (const std::string& name : names) {
      const absl::StatusOr<ChunkId> id = Digest::FromHex(folder + name);
      const std::string file = absl::StrCat(path, "/", name);
      if (!id.ok()) {  // of a write that never ended
        GDF_RETURN_IF_ERROR(files_.Remove(file));
        continue;
      }
      GDF_ASSIGN_OR_RETURN(const FileInfo info, files_.Stat(file));
      absl::MutexLock lock(&mutex_);
      entries_[*id] = {.size_bytes = info.size, .present = true};
      bytes_ += info.size;
      Settle(*id);
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkStore::LoadPins() {
  const std::string folder = absl::StrCat(options_.folder, "/pins");
  GDF_RETURN_IF_ERROR(files_.MakeFolders(folder));
  GDF_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(folder));
  for (const std::string& owner : names) {
    const std::string path = absl::StrCat(folder, "/", owner);
    if (!CheckOwner(owner).ok()) {  // of a write that never ended
      GDF_RETURN_IF_ERROR(files_.Remove(path));
      continue;
    }
    GDF_ASSIGN_OR_RETURN(const std::string bytes, files_.Read(path));
    ByteReader in(bytes);
    if (in.Bytes(kPinMagic.size()) != kPinMagic || in.left() % Digest::kSize != 0) {
      return absl::DataLossError(
          absl::StrCat(path, " is damaged: it should list the chunks of ", owner, "; remove it to give them up"));
    }
    absl::MutexLock lock(&mutex_);
    while (in.left() > 0) AddPin(owner, in.Digest());
  }
  return absl::OkStatus();
}

std::string ChunkStore::PathOf(const ChunkId& id) const {
  const std::string hex = id.ToHex();
  return absl::StrCat(options_.folder, "/", hex.substr(0, 2), "/", hex.substr(2));
}

std::string ChunkStore::PinPathOf(std::string_view owner) const {
  return absl::StrCat(options_.folder, "/pins/", ToAbsl(owner));
}

void ChunkStore::AwaitIdle(const ChunkId& id) {
  const auto idle = [this, &id]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = entries_.find(id);
    return found == entries_.end() || !found->second.busy;
  };
  mutex_.Await(absl::Condition(&idle));
}

void ChunkStore::Settle(const ChunkId& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (evictable_.erase(entry.last_use) != 0) evictable_bytes_ -= entry.size_bytes;
  entry.last_use = ++uses_;
  if (entry.present && entry.pins == 0 && !entry.busy) {
    evictable_[entry.last_use] = id;
    evictable_bytes_ += entry.size_bytes;
  }
  if (!entry.present && entry.pins == 0 && !entry.busy) entries_.erase(found);
}

void ChunkStore::AddPin(std::string_view owner, const ChunkId& id) {
  auto found = pins_.find(owner);
  if (found == pins_.end()) found = pins_.emplace(std::string(owner), absl::flat_hash_set<ChunkId>{}).first;
  if (!found->second.insert(id).second) return;
  ++entries_[id].pins;
  Settle(id);
}

void ChunkStore::MarkDeleted(const ChunkId& id) {
  Entry& entry = entries_[id];
  GDF_CHECK(entry.present && !entry.busy);
  entry.busy = true;
  Settle(id);  // out of evictable_, while its size still counts
  entry.present = false;
  bytes_ -= entry.size_bytes;
}

absl::StatusOr<std::vector<ChunkId>> ChunkStore::Reserve(uint64_t size_bytes) {
  const uint64_t fixed = bytes_ - evictable_bytes_;
  if (size_bytes > options_.cap_bytes || fixed > options_.cap_bytes - size_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for a chunk of ", HumanBytes(size_bytes), " in ", options_.folder, ": ",
                     HumanBytes(fixed), " of its cap of ", HumanBytes(options_.cap_bytes),
                     " are pinned by jobs. Raise the cap, or end or clean up a job"));
  }
  std::vector<ChunkId> victims;
  while (bytes_ > options_.cap_bytes - size_bytes) {
    victims.push_back(evictable_.begin()->second);
    MarkDeleted(victims.back());
  }
  bytes_ += size_bytes;
  return victims;
}

absl::Status ChunkStore::DeleteFiles(const std::vector<ChunkId>& ids) {
  absl::Status result;
  for (const ChunkId& id : ids) {
    const absl::Status status = files_.Remove(PathOf(id));
    if (!status.ok() && !absl::IsNotFound(status) && result.ok()) result = status;
    absl::MutexLock lock(&mutex_);
    entries_[id].busy = false;
    Settle(id);
  }
  return result;
}

absl::StatusOr<ChunkId> ChunkStore::Put(absl::Span<const uint8_t> data, std::string_view owner) {
  bool added = false;
  return Put(data, owner, &added);
}

absl::StatusOr<ChunkId> ChunkStore::Put(absl::Span<const uint8_t> data, std::string_view owner, bool* added) {
  const ChunkId id = HashBytes(data);
  GDF_ASSIGN_OR_RETURN(*added, Store(id, data, owner));
  return id;
}

absl::Status ChunkStore::PutExpected(const ChunkId& expected, absl::Span<const uint8_t> data, std::string_view owner) {
  if (HashBytes(data) != expected) {
    return absl::DataLossError(absl::StrCat("the bytes received as chunk ", expected.Short(), " are not its content"));
  }
  return Store(expected, data, owner).status();
}

absl::StatusOr<bool> ChunkStore::Store(const ChunkId& id, absl::Span<const uint8_t> data, std::string_view owner) {
  if (data.size() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk has ", data.size(), " bytes, at most ", kMaxChunkBytes,
                                                   " are allowed"));
  }
  if (!owner.empty()) GDF_RETURN_IF_ERROR(CheckOwner(owner));
  std::vector<ChunkId> victims;
  {
    absl::MutexLock lock(&mutex_);
    AwaitIdle(id);
    const auto found = entries_.find(id);
    if (found != entries_.end() && found->second.present) {
      if (!owner.empty()) AddPin(owner, id);
      Settle(id);
      return false;
    }
    GDF_ASSIGN_OR_RETURN(victims, Reserve(data.size()));
    entries_[id].busy = true;
  }
  absl::Status status = DeleteFiles(victims);
  const std::string path = PathOf(id);
  if (status.ok()) status = files_.MakeFolders(path.substr(0, path.rfind('/')));
  if (status.ok()) status = files_.WriteAtomic(path, AsString(data));

  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[id];
  entry.busy = false;
  if (status.ok()) {
    entry.present = true;
    entry.size_bytes = data.size();
    ++entry.generation;
    if (!owner.empty()) AddPin(owner, id);
  } else {
    bytes_ -= data.size();
  }
  Settle(id);
  GDF_RETURN_IF_ERROR(Annotate(status, absl::StrCat("chunk ", id.Short())));
  return true;
}

absl::StatusOr<Buffer> ChunkStore::Get(const ChunkId& id) {
  uint64_t generation = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end() || !found->second.present) {
      return absl::NotFoundError(absl::StrCat("chunk ", id.Short(), " is not on this node"));
    }
    generation = found->second.generation;
    Settle(id);
  }
  absl::StatusOr<std::string> data = files_.Read(PathOf(id), kMaxChunkBytes);
  if (data.ok() && HashBytes(std::string_view(*data)) == id) return Buffer(*std::move(data));
  // Evicted since we looked, or damaged on the disk: forget it, so that it can be fetched again.
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end() || !found->second.present || found->second.busy ||
        found->second.generation != generation) {
      return absl::NotFoundError(absl::StrCat("chunk ", id.Short(), " is no longer on this node"));
    }
    MarkDeleted(id);
  }
  GDF_RETURN_IF_ERROR(DeleteFiles({id}));
  return absl::DataLossError(absl::StrCat("chunk ", id.Short(), " was damaged on the disk (", PathOf(id),
                                          ") and was removed: fetch it again"));
}

bool ChunkStore::Has(const ChunkId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.present;
}

std::vector<ChunkId> ChunkStore::Missing(const std::vector<ChunkId>& ids,
                                         const std::vector<std::string>& owners) const {
  absl::MutexLock lock(&mutex_);
  std::vector<const absl::flat_hash_set<ChunkId>*> pinned;
  for (const std::string& owner : owners) {
    if (const auto found = pins_.find(owner); found != pins_.end())
      pinned.push_back(&found->second);
  }
  std::vector<ChunkId> missing;
  for (const ChunkId& id : ids) {
    const auto found = entries_.find(id);
    const auto has = [&id](const auto* pins) { return pins->contains(id); };
    if (found == entries_.end() || !found->second.present ||
        std::none_of(pinned.begin(), pinned.end(), has)) {
      missing.push_back(id);
    }
  }
  return missing;
}

absl::Status ChunkStore::SavePins(std::string_view owner) {
  ByteWriter out;
  {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !saving_pins_; };
    mutex_.Await(absl::Condition(&idle));
    saving_pins_ = true;
    const auto found = pins_.find(owner);
    if (found != pins_.end()) {
      std::vector<ChunkId> ids(found->second.begin(), found->second.end());
      std::sort(ids.begin(), ids.end());
      out.Bytes(kPinMagic);
      for (const ChunkId& id : ids) out.Bytes(id.bytes);
    }
  }
  const std::string path = PinPathOf(owner);
  absl::Status status = out.str().empty() ? files_.Remove(path) : files_.WriteAtomic(path, out.str());
  if (absl::IsNotFound(status)) status = absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  saving_pins_ = false;
  return status;
}

absl::Status ChunkStore::Pin(std::string_view owner, const std::vector<ChunkId>& ids) {
  GDF_RETURN_IF_ERROR(CheckOwner(owner));
  {
    absl::MutexLock lock(&mutex_);
    for (const ChunkId& id : ids) AddPin(owner, id);
  }
  return SavePins(owner);
}

absl::Status ChunkStore::SetPins(std::string_view owner, const std::vector<ChunkId>& ids) {
  GDF_RETURN_IF_ERROR(CheckOwner(owner));
  std::vector<ChunkId> orphans;
  {
    absl::MutexLock lock(&mutex_);
    for (const ChunkId& id : ids) AddPin(owner, id);
    if (const auto found = pins_.find(owner); found != pins_.end()) {
      const absl::flat_hash_set<ChunkId> keep(ids.begin(), ids.end());
      const absl::flat_hash_set<ChunkId> before = found->second;
      for (const ChunkId& id : before) {
        if (keep.contains(id)) continue;
        found->second.erase(id);
        Entry& entry = entries_[id];
        if (--entry.pins == 0 && entry.present && !entry.busy) {
          MarkDeleted(id);
          orphans.push_back(id);
        } else {
          Settle(id);
        }
      }
      if (found->second.empty()) pins_.erase(found);
    }
  }
  // First the pins: after a crash in between, the chunks are a cache.
  const absl::Status saved = SavePins(owner);
  GDF_RETURN_IF_ERROR(DeleteFiles(orphans));
  return saved;
}

bool ChunkStore::PinnedBy(std::string_view owner, const ChunkId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pins_.find(owner);
  return found != pins_.end() && found->second.contains(id);
}

bool ChunkStore::PinnedUnder(std::string_view owner, const ChunkId& id) const {
  if (PinnedBy(owner, id)) return true;
  const std::string prefix = absl::StrCat(ToAbsl(owner), "-");
  absl::MutexLock lock(&mutex_);
  for (auto it = pins_.lower_bound(prefix); it != pins_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    if (it->second.contains(id)) return true;
  }
  return false;
}

std::vector<std::string> ChunkStore::Owners() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> owners;
  for (const auto& [owner, ids] : pins_) owners.push_back(owner);
  return owners;
}

ChunkStore::Usage ChunkStore::usage() const {
  absl::MutexLock lock(&mutex_);
  Usage usage;
  usage.bytes = bytes_;
  usage.cap_bytes = options_.cap_bytes;
  for (const auto& [id, entry] : entries_) {
    if (!entry.present) continue;
    ++usage.chunks;
    if (entry.pins > 0) usage.pinned_bytes += entry.size_bytes;
  }
  return usage;
}

absl::Status ChunkWriter::Flush() {
  bool added = false;
  GDF_ASSIGN_OR_RETURN(const ChunkId id, store_.Put(pending_, owner_, &added));
  if (added) added_bytes_ += pending_.size();
  file_.chunks.push_back(id);
  pending_.clear();
  return absl::OkStatus();
}

absl::Status ChunkWriter::Append(absl::Span<const uint8_t> data) {
  file_.size_bytes += data.size();
  while (!data.empty()) {
    const size_t take = std::min<size_t>(data.size(), kChunkBytes - pending_.size());
    pending_.insert(pending_.end(), data.begin(), data.begin() + take);
    data.remove_prefix(take);
    if (pending_.size() == kChunkBytes) GDF_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestFile> ChunkWriter::Finish(std::string path) {
  if (!pending_.empty()) GDF_RETURN_IF_ERROR(Flush());
  ManifestFile file = std::exchange(file_, {});
  file.path = std::move(path);
  return file;
}

absl::Status Assemble(ChunkStore& store, const ManifestFile& file, WritableFile& out) {
  for (size_t i = 0; i < file.chunks.size(); ++i) {
    GDF_ASSIGN_OR_RETURN(const Buffer chunk, store.Get(file.chunks[i]));
    if (chunk.size() != file.ChunkSize(i)) {
      return absl::InvalidArgumentError(absl::StrCat("chunk ", i, " of ", file.path, " has ", chunk.size(),
                                                     " bytes, its manifest says ", file.ChunkSize(i)));
    }
    GDF_RETURN_IF_ERROR(out.Append(chunk.span()));
  }
  return absl::OkStatus();
}

}  // namespace gdf::store
