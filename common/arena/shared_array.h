/*
 * shared_array.h - an array that is made once and read by several processes.
 *
 * PROBLEM. What workers derive or copy from the data set (running sums of weights, what GPUs read
 * in the machine's memory) is the same in all of them, and may be half of that memory.
 *
 * DESIGN. A file without a name that the processes have inherited, empty at first. Whoever comes
 * first takes the file's lock, makes the array and marks it as whole; the others sleep on an event
 * beside the mark, and map what is there. The kernel gives a dead process's lock back, and an array
 * that is not marked is made again from its beginning: a process may die at any instruction, and
 * nobody has to be told. The memory goes with the last process.
 *
 * The lock is of the open file (F_OFD_SETLK): one of the process would be gone as soon as anybody
 * in it closed any descriptor of the file. Those that inherited the file have it open in common and
 * would not keep one another out, so each opens it once more (/proc/self/fd) to lock it.
 *
 * HUGE PAGES are granted to shared memory by the machine's setting, or by the kernel on request: a
 * range of 2 MiB of which one byte was touched is moved to a huge page (MADV_COLLAPSE, Linux 6.1),
 * and what is written afterwards is written there. A maker asks for each part before it fills it
 * (sl_shared_array_ask_huge), by the thread that does; asked for afterwards, all of it would be
 * copied once more.
 */
#ifndef SL_ARENA_SHARED_ARRAY_H
#define SL_ARENA_SHARED_ARRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SL_HUGE_PAGE_BYTES = 2 << 20 };

struct sl_shared_array {
    void *data; // on a boundary of huge pages, to be read; NULL: none
    uint64_t map_bytes;
    bool made_here;
    bool huge; // all whole huge pages of it are
};

typedef int (*sl_shared_array_make)(void *ctx, void *data);

struct sl_shared_array_spec {
    int fd; // below 0: memory of this process's own
    uint64_t bytes;
    sl_shared_array_make make; // writes it
    void *ctx;
    uint32_t wait_seconds;     // for others at most; 0: SL_SHARED_ARRAY_SECONDS
    const _Atomic bool *stops; // ends the wait, or NULL
};

// Less than a worker has to be ready (SL_WORKER_START_SECONDS): it can still do without.
enum { SL_SHARED_ARRAY_SECONDS = 600 };

/*
 * Maps the array that the file holds, or is going to. SL_ENOMEM; SL_EPROTO when the file is of
 * another size; SL_ETIMEDOUT when whoever makes it does not come to an end; SL_EABORTED; what
 * make() returns, and then the next process tries.
 */
int sl_shared_array_open(const struct sl_shared_array_spec *spec, struct sl_shared_array *out);
void sl_shared_array_close(struct sl_shared_array *a); // safe on a zeroed struct

// Makes the mapping writable, since drivers only pin such pages.
int sl_shared_array_let_pin(struct sl_shared_array *a);

// A new file for an array, to be inherited: without a name, empty. Its descriptor, or SL_ESYS.
int sl_shared_array_file(void);

// For make(): asks for huge pages for all whole ones in [p, p + bytes), before they are written.
void sl_shared_array_ask_huge(void *p, uint64_t bytes);

#endif
