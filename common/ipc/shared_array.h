/*
 * shared_array.h - an array that is made once and read by several processes.
 *
 * PROBLEM. What samplers derive from the data set, 8 bytes an edge where they draw by weight, is
 * the same in all of them.
 *
 * DESIGN. A file without a name that the processes have inherited, empty at first. Whoever comes
 * first takes the file's lock, makes the array and marks it as whole; the others wait for the lock
 * and map what is there. The kernel gives a dead process's lock back, and an array that is not
 * marked is made again from its beginning: a process may die at any instruction, and nobody has to
 * be told. The memory goes with the last process.
 *
 * The lock is of the process (fcntl), not of the descriptor, which all have inherited from one.
 */
#ifndef SL_COMMON_IPC_SHARED_ARRAY_H
#define SL_COMMON_IPC_SHARED_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

struct sl_shared_array {
    void *data; // read-only, on a boundary of huge pages; NULL: none
    uint64_t map_bytes;
    uint64_t note; // what make() left there beside the array
    bool made_here;
    bool huge; // all of it, where it was made here, lies in huge pages
};

typedef int (*sl_shared_array_make)(void *ctx, void *data, uint64_t *note);

/*
 * Maps the array of `bytes` that the file `fd` holds, or is going to; make(ctx, data, note) writes
 * it, and a number for all beside it.
 * fd < 0: memory of this process's own. SL_ENOMEM; SL_EPROTO when the file is of another size; what
 * make() returns, and then the next process tries.
 */
int sl_shared_array_open(int fd, uint64_t bytes, sl_shared_array_make make, void *ctx,
                         struct sl_shared_array *out);
void sl_shared_array_close(struct sl_shared_array *a); // safe on a zeroed struct

#endif
