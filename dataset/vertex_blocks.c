#include "dataset/vertex_blocks.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/threads.h"

void sl_vertex_blocks_init(struct sl_vertex_blocks *b, uint64_t n_nodes, uint64_t n_threads,
                           struct sl_progress *progress)
{
    const int most = SL_VERTEX_THREADS_MAX;
    *b = (struct sl_vertex_blocks){
        .n_nodes = n_nodes,
        .n_threads = n_threads ? (int)n_threads : SL_MIN(sl_threads_default(), most),
        .progress = progress,
    };
}

int sl_vertex_blocks_run(struct sl_vertex_blocks *b, const char *what, int (*body)(void *, int),
                         void *context)
{
    sl_progress_begin(b->progress, what, b->n_nodes, "vertices");
    b->next = 0;
    SL_TRY(sl_threads_run(b->n_threads, body, context));
    return sl_interrupt_check();
}

bool sl_vertex_blocks_take(struct sl_vertex_blocks *b, uint64_t *begin, uint64_t *end)
{
    const uint64_t block = atomic_fetch_add_explicit(&b->next, 1, memory_order_relaxed);
    *begin = block * SL_VERTEX_BLOCK;
    *end = SL_MIN(*begin + SL_VERTEX_BLOCK, b->n_nodes);
    if (*begin >= b->n_nodes || sl_interrupt_seen())
        return false;
    sl_progress_add(b->progress, *end - *begin);
    return true;
}
