/* The boundary between gdf-worker and libgdf_cuda.so: plain C, so that the two need no C++ library,
 * compiler or protobuf in common. The library exports one function, gdf_cuda_plugin, which gives a
 * table of functions; cuda/loader.h opens and checks it. One device at a time: a session; several that
 * add up and copy among themselves: a group. */
#ifndef GDF_CUDA_PLUGIN_H_
#define GDF_CUDA_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up with every change of this header; both sides must have the same one. */
#define GDF_CUDA_ABI_VERSION 4u
#define GDF_CUDA_ENTRY_POINT "gdf_cuda_plugin"

/* What functions return. */
enum {
  GDF_CUDA_OK = 0,
  GDF_CUDA_NO_DRIVER = 1,        /* no NVIDIA driver, or one too old for this library */
  GDF_CUDA_NO_DEVICE = 2,        /* the driver shows no device of that number */
  GDF_CUDA_INVALID_ARGUMENT = 3, /* of the caller; nothing was done */
  GDF_CUDA_OUT_OF_MEMORY = 4,
  GDF_CUDA_BAD_DATA = 5, /* values or packed bytes that the codec refuses; outputs hold anything */
  GDF_CUDA_FAILED = 6,   /* CUDA's or NCCL's own error; the session or group is of no use after it */
  GDF_CUDA_NO_NCCL = 7   /* there is no NCCL, or the plugin was built without it */
};

/* Filled by a function that does not return GDF_CUDA_OK; the text ends with a zero byte. */
typedef struct GdfCudaError {
  char message[256];
} GdfCudaError;

typedef struct GdfCudaDevice {
  char name[256];
  int32_t major; /* compute capability */
  int32_t minor;
  uint64_t total_bytes;
  uint64_t memory_bytes_per_sec; /* what clock and width of its memory allow; 0: the driver says neither */
} GdfCudaDevice;

/* A codec with options that the format allows: the caller sees to that. */
typedef struct GdfCudaCodec {
  uint32_t kind;       /* its number in docs/formats/codecs.md */
  uint32_t block;      /* of a block codec; else 0 */
  uint32_t k;          /* of a top-k codec and of dct; else 0 */
  uint32_t stochastic; /* 1: int8 and int4 round by chance */
} GdfCudaCodec;

/* One device with a stream of its own, which follows the device's default stream. Used by one
 * thread at a time. */
typedef struct GdfCudaSession GdfCudaSession;

/* Devices of this process among which NCCL sums and copies. Used by one thread at a time. */
typedef struct GdfCudaGroup GdfCudaGroup;

/* Every function that takes a session waits until its work on the device is done. */
typedef struct GdfCudaPlugin {
  uint32_t abi_version;  /* GDF_CUDA_ABI_VERSION; first in every version */
  uint32_t struct_bytes; /* sizeof(GdfCudaPlugin) */

  /* Devices are numbered from 0. GDF_CUDA_NO_DRIVER, GDF_CUDA_NO_DEVICE when there is none. */
  int32_t (*count_devices)(int32_t* count, GdfCudaError* error);
  int32_t (*describe_device)(int32_t device, GdfCudaDevice* description, GdfCudaError* error);

  int32_t (*open_session)(int32_t device, GdfCudaSession** session, GdfCudaError* error);
  void (*close_session)(GdfCudaSession* session); /* after its memory is released */

  /* Device memory, aligned to 256 bytes. */
  int32_t (*allocate)(GdfCudaSession* session, uint64_t bytes, void** memory, GdfCudaError* error);
  void (*release)(GdfCudaSession* session, void* memory);
  int32_t (*copy_to_device)(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                            GdfCudaError* error);
  int32_t (*copy_to_host)(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                          GdfCudaError* error);
  int32_t (*copy_on_device)(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                            GdfCudaError* error);

  /* The codecs of docs/formats/codecs.md, with the same bytes and values as core/compress. All arrays
   * in device memory and aligned to 16 bytes: `values` and `acc`, [num_values] float32; `packed`, of
   * the size that the format says. `seed` and `first`, the place of the first value, are for stochastic
   * rounding. accumulate: acc = acc + weight * value. GDF_CUDA_BAD_DATA: encode, when a value is NaN or
   * infinite; the others, when the bytes are none that encode writes. The message says from which value
   * on. */
  int32_t (*encode)(GdfCudaSession* session, const GdfCudaCodec* codec, const float* values,
                    uint64_t num_values, uint64_t seed, uint64_t first, uint8_t* packed,
                    GdfCudaError* error);
  int32_t (*decode)(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed,
                    uint64_t num_values, float* values, GdfCudaError* error);
  int32_t (*accumulate)(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed,
                        uint64_t num_values, float weight, float* acc, GdfCudaError* error);

  /* How long the device was at the copying or the kernel of the last copy_on_device, encode, decode or
   * accumulate that had any bytes or values, by its own clock; before the first, next to nothing. */
  int32_t (*device_time)(GdfCudaSession* session, double* seconds, GdfCudaError* error);

  /* Of the first `num_devices` devices, two or more. NCCL is looked for now. */
  int32_t (*open_group)(int32_t num_devices, GdfCudaGroup** group, GdfCudaError* error);
  void (*close_group)(GdfCudaGroup* group);
  /* buffers[i]: [num_values] float32 in memory of device i. After reduce the first holds the sum of all, in an
   * order that is the same each time, and the others what they held; after broadcast all hold what the first did.
   * Both only enqueue the work, between what is on the default stream of each device and what comes on it. */
  int32_t (*reduce)(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error);
  int32_t (*broadcast)(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error);
} GdfCudaPlugin;

/* The table, of static storage. Needs no driver and no device. */
typedef const GdfCudaPlugin* GdfCudaEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif /* GDF_CUDA_PLUGIN_H_ */
