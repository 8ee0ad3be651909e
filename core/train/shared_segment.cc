#include "core/train/shared_segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace gdf::train {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kImmutable = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

absl::Status OutOf(std::string_view what, uint64_t size) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot ", absl::string_view(what.data(), what.size()), " shared memory of ",
                   size, " bytes: ", std::strerror(errno)));
}

absl::StatusOr<UniqueFd> MakeMemory(uint64_t size) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create("gdf", kFlags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd.Reset(memfd_create("gdf", kFlags));  // an older kernel
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return OutOf("make", size);
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<Mapping>> Map(int fd, uint64_t size, int protection,
                                             int flags = MAP_SHARED) {
  if (size == 0) return std::make_unique<Mapping>(nullptr, 0);
  void* data = mmap(nullptr, size, protection, flags, fd, 0);
  if (data == MAP_FAILED) return OutOf("map", size);
  return std::make_unique<Mapping>(data, size);
}

absl::Status CheckSize(int fd, uint64_t size) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<uint64_t>(info.st_size) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shared file of ", static_cast<int64_t>(info.st_size),
                     " bytes came, expected a regular file of ", size));
  }
  return absl::OkStatus();
}

// Memory of the ordinary kind with these seals: a file of any other kind could block or fault.
absl::Status CheckSealed(int fd, int seals) {
  struct statfs info {};
  const int got = fcntl(fd, F_GET_SEALS);
  if (got < 0 || (got & seals) != seals || fstatfs(fd, &info) != 0 || info.f_type != TMPFS_MAGIC) {
    return absl::InvalidArgumentError("a shared file is not sealed memory");
  }
  return absl::OkStatus();
}

Buffer ToBuffer(std::unique_ptr<Mapping> mapping) {
  const absl::Span<const uint8_t> bytes = mapping->bytes();
  return Buffer::Wrap(bytes, std::shared_ptr<const Mapping>(std::move(mapping)));
}

}  // namespace

Mapping::~Mapping() {
  if (size_ > 0) munmap(data_, size_);
}

absl::StatusOr<SharedSegment> SharedSegment::Create(uint64_t size, Peer peer) {
  GDF_ASSIGN_OR_RETURN(UniqueFd fd, MakeMemory(size));
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                       Map(fd.get(), size, PROT_READ | PROT_WRITE));
  // Our own mapping stays writable under F_SEAL_FUTURE_WRITE; no later one can be.
  const int seals = kFixedSize | (peer == Peer::kReads ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return OutOf("seal", size);
  return SharedSegment(std::move(fd), std::move(mapping));
}

absl::StatusOr<SharedSegment> SharedSegment::Open(UniqueFd fd, uint64_t size, bool writable) {
  GDF_RETURN_IF_ERROR(CheckSize(fd.get(), size));
  GDF_RETURN_IF_ERROR(CheckSealed(fd.get(), kFixedSize));
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                       Map(fd.get(), size, writable ? PROT_READ | PROT_WRITE : PROT_READ));
  return SharedSegment(std::move(fd), std::move(mapping));
}

absl::StatusOr<UniqueFd> SharedSegment::DuplicateFd() const {
  UniqueFd copy(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return OutOf("share", bytes().size());
  return copy;
}

void SharedSegment::Discard() {
  if (bytes().empty()) return;
  // Saves memory and no more: where the system cannot, the pages stay.
  (void)fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  static_cast<off_t>(bytes().size()));
}

absl::StatusOr<UniqueFd> MakeBlob(uint64_t size,
                                  absl::FunctionRef<absl::Status(absl::Span<uint8_t>)> fill) {
  GDF_ASSIGN_OR_RETURN(UniqueFd fd, MakeMemory(size));
  {
    GDF_ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                         Map(fd.get(), size, PROT_READ | PROT_WRITE));
    GDF_RETURN_IF_ERROR(fill(mapping->bytes()));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kImmutable) != 0) return OutOf("seal", size);
  return fd;
}

absl::StatusOr<UniqueFd> MakeBlob(absl::Span<const uint8_t> contents) {
  return MakeBlob(contents.size(), [contents](absl::Span<uint8_t> out) {
    if (!contents.empty()) std::memcpy(out.data(), contents.data(), contents.size());
    return absl::OkStatus();
  });
}

absl::StatusOr<Buffer> OpenBlob(UniqueFd fd, uint64_t size) {
  GDF_RETURN_IF_ERROR(CheckSize(fd.get(), size));
  GDF_RETURN_IF_ERROR(CheckSealed(fd.get(), kImmutable));
  // Private: kernels before 6.7 refuse a shared mapping of memory sealed against writing.
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                       Map(fd.get(), size, PROT_READ, MAP_PRIVATE));
  return ToBuffer(std::move(mapping));
}

absl::StatusOr<Buffer> MapFile(UniqueFd fd, uint64_t size) {
  GDF_RETURN_IF_ERROR(CheckSize(fd.get(), size));
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                       Map(fd.get(), size, PROT_READ, MAP_PRIVATE));
  return ToBuffer(std::move(mapping));
}

}  // namespace gdf::train
