/*
 * device.h - where a worker computes: its memory, and how data gets there and back.
 *
 * PROBLEM. Samplers and trainers run on CPU cores or on a GPU. What they do is the same; where
 * their arrays lie is not, and a pointer into a GPU's memory must never be followed by the
 * processor.
 *
 * DESIGN. A worker process computes on one device for all its life. A struct sl_device says how to
 * get memory there and how to copy; the table of operations (kernels/kernels.h) that belongs to it
 * takes pointers into that memory. On a CPU device its memory is the process's own: copies are
 * memcpy and nothing is asynchronous. A CUDA device comes with the plug-in (plugin.h).
 *
 *      host memory    what malloc, mmap and the arena give: the processor follows its pointers
 *      device memory  what `memory.alloc` gives: operations and `copy` take its pointers
 *      mapped memory  host memory that the device reads and writes in place, over the bus, at the
 *                     address that `map` gives: pinned, and slower than the device's own
 *
 * QUEUES. Each thread has a queue of its own on the device. Copies, fills and operations of a
 * thread run in the order in which they were called, and may still be running when the call
 * returns; sync() waits for all of them. What an operation returns through a host pointer (struct
 * sl_loss_result, counts) is there after the next sync(): the device copies it. Where the pointer
 * is to pinned memory (of host_alloc(), or what map() was given) nobody waits for that; into any
 * other memory the operation itself waits for its result, so that nothing is ever written to
 * memory that its owner has left. Two threads order their work by sync(). A thread that has two
 * pieces of work under way at once has a second queue for one of them (use_queue): the two do not
 * wait for each other, and each is waited for by itself.
 *
 * FAILURE. Every function returns SL_OK or a negative SL_E* after sl_fail(). A device that faults
 * in the middle (an illegal address, a lost GPU) makes every later call fail with SL_EDEVICE: the
 * process must end, and its leases go to others.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mempool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_DEVICE_NAME_BYTES = 64, SL_DEVICE_SHARE_BYTES = 128, SL_DEVICE_QUEUES = 2 };

// A piece of device memory that another process may use: what share() writes and attach() reads.
struct sl_device_share {
    unsigned char bytes[SL_DEVICE_SHARE_BYTES];
};

// How busy a device was with the work of all processes: shares (0 to 1) of the last stretch of
// time, whose length the device chooses, a second at most.
struct sl_device_load {
    float busy;        // some operation ran
    float memory_busy; // its memory was read or written
};

struct sl_device {
    const char *kind; // "cpu", "cuda"
    // Device memory is the process's own: pointers into it may be followed.
    bool is_host;

    // Device memory, aligned to 256 bytes, counted against the budget; freed memory is kept for the
    // next allocation (no cudaMalloc in steady state). alloc gives NULL after sl_fail() with what
    // was wanted, what is free and what to change.
    struct sl_memory memory;

    // n bytes from anywhere to anywhere (host, device, mapped). Host memory must stay as it is
    // until sync().
    int (*copy)(void *to, const void *from, size_t n);
    // `columns` bytes of each of `rows` rows, `to_stride` and `from_stride` bytes apart.
    int (*copy_2d)(void *to, size_t to_stride, const void *from, size_t from_stride, size_t columns,
                   size_t rows);
    int (*fill)(void *p, int byte, size_t n);
    // Waits for all that this thread has asked for in the queue that it uses, and says how it went.
    int (*sync)(void);
    // What this thread asks for from now on is for its queue `i`, below SL_DEVICE_QUEUES; it begins
    // with queue 0. Memory that the other queue still uses must not be freed.
    void (*use_queue)(uint32_t i);

    // Host memory for copies at full speed (pinned). NULL after sl_fail().
    void *(*host_alloc)(size_t n);
    void (*host_free)(void *p, size_t n);
    /*
     * Lets the device use host memory [p, p + n) in place; *out is the address to give to
     * operations. `read_only`: only to be read. Whole pages are mapped, so the pages of [p, p + n)
     * must hold nothing else that is copied: a copy from or to memory that is mapped in part fails,
     * and so does one to what is mapped read_only. Memory inside a range that is mapped already
     * shares it, until unmap() as many times. While a sum of this process is under way (plugin.h)
     * unmapped pages stay pinned until that is over, and must be there so long. SL_ENOMEM or
     * SL_EUNSUPPORTED where the system does not allow it (locked-memory limit, kind of mapping):
     * the caller goes on with copies.
     */
    int (*map)(void *p, size_t n, bool read_only, void **out);
    void (*unmap)(void *p);
    // The address to give to operations of what lies at p in pinned memory: inside what
    // host_alloc() gave or map() was given. NULL, without an error, where it is not pinned.
    void *(*pinned)(const void *p);

    // Bytes of the device: free now for this process, and in all. A CPU device: of the machine.
    int (*space)(uint64_t *free_bytes, uint64_t *total_bytes);
    // Bytes of the whole device: in use by all processes, and in all; budgets do not count.
    int (*usage)(uint64_t *used_bytes, uint64_t *total_bytes);
    // False, without an error, where it is unknown: the driver does not say, a slice of a GPU, a
    // CPU device.
    bool (*load)(struct sl_device_load *out);
    // Device memory that this process holds, kept but unused memory included.
    uint64_t (*held)(void);
    // Gives kept memory back to the device.
    void (*trim)(void);

    // Device memory across processes of the same device or of peers. SL_EUNSUPPORTED on CPU
    // devices.
    int (*share)(const void *p, struct sl_device_share *out);
    int (*attach)(const struct sl_device_share *share, void **out);
    // This process reads it no longer. While a sum of this process is under way (plugin.h) it stays
    // open until that is over: whoever lent it must not free it before.
    void (*detach)(void *p);
    // Whether what attach() gave is open, detached or not.
    bool (*is_open)(const void *p);
};

// The cores that this process runs on: everything is done when a call returns.
const struct sl_device *sl_device_host(void);

#ifdef __cplusplus
}
#endif

#endif
