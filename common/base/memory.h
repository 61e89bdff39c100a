// memory.h - how much memory this process may still use.
#ifndef SL_BASE_MEMORY_H
#define SL_BASE_MEMORY_H

#include <stdint.h>

/*
 * Bytes that this process and its children can still touch: the least of what the kernel says is
 * available without swapping, what every memory cgroup above this process leaves (versions 1 and
 * 2), and what RLIMIT_AS leaves of the address space. Never fails; a source that cannot be read
 * is left out.
 */
uint64_t sl_device_memory_available(void);

// A bound of this process's own, on top of these: `left` says what it leaves, from any thread.
// NULL: there is none, as at the start. Set it while no other thread asks.
void sl_memory_set_bound(uint64_t (*left)(void *ctx), void *ctx);

// The same without RLIMIT_AS and a bound, from the files below `root` ("" is this machine): what
// tests use.
uint64_t sl_memory_available_below(const char *root);

#endif
