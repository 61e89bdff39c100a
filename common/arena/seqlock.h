/*
 * seqlock.h - figures of one writer that anybody may read as a whole.
 *
 * The writer makes `seq` odd, stores, and makes it even again; the reader copies, and looks whether
 * seq was even and is unchanged. Figures are whole words, copied one by one: what is torn between
 * words is thrown away by `seq`, and a word is never torn. Writing takes no lock. A writer that
 * died inside leaves seq odd: readers keep what they had, and the next writer starts from there.
 */
#ifndef SL_ARENA_SEQLOCK_H
#define SL_ARENA_SEQLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) sl_seqlock_word;

static inline void sl_seqlock_store(_Atomic uint32_t *seq, void *figures, const void *mine,
                                    size_t bytes)
{
    const sl_seqlock_word *from = (const sl_seqlock_word *)mine;
    sl_seqlock_word *to = (sl_seqlock_word *)figures;
    const uint32_t odd = atomic_load_explicit(seq, memory_order_relaxed) | 1;
    // Odd before the stores, even after them: both fences pair with the reader's.
    atomic_store_explicit(seq, odd, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < bytes / sizeof *to; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    atomic_store_explicit(seq, odd + 1, memory_order_release);
}

// False, and what is in *out is worth nothing, while the writer is inside: it was preempted there,
// or died there.
static inline bool sl_seqlock_load(const _Atomic uint32_t *seq, const void *figures, void *out,
                                   size_t bytes)
{
    const sl_seqlock_word *from = (const sl_seqlock_word *)figures;
    sl_seqlock_word *to = (sl_seqlock_word *)out;
    // A writer is inside for less than a microsecond, unless it is not running at all.
    for (int attempt = 0; attempt < 1000; attempt++) {
        const uint32_t before = atomic_load_explicit(seq, memory_order_acquire);
        for (size_t i = 0; i < bytes / sizeof *to; i++)
            to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        atomic_thread_fence(memory_order_acquire);
        if (before == atomic_load_explicit(seq, memory_order_relaxed) && !(before & 1))
            return true;
    }
    return false;
}

#endif
