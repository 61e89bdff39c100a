// Device memory that a thread keeps for its operations in each of its queues: dense.cuh and
// aggregate_hubs.cuh say what for.
#include "kernels/cuda/aggregate_hubs.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/runtime.cuh"

namespace {

/*
 * Pieces end before the thread's queues do: C++ destructors of a thread come before those of
 * pthread keys, so freeing still finds the stream to wait for.
 */
struct piece {
    void *bytes;
    size_t n;
};

struct pieces {
    struct piece of_queue[SL_DEVICE_QUEUES];

    ~pieces()
    {
        for (uint32_t i = 0; i < SL_DEVICE_QUEUES; i++) {
            if (!of_queue[i].bytes)
                continue;
            sl_cuda_use_queue(i);
            sl_cuda_free(of_queue[i].bytes, of_queue[i].n);
        }
    }

    struct piece *in_use()
    {
        return &of_queue[sl_cuda_queue_in_use()];
    }
};

thread_local struct pieces kept_scratch, kept_workspace;
thread_local struct pieces kept_room; // grow

// The piece; of `bytes` where there is none yet.
int take(const char *what, struct piece *piece, size_t bytes, void **out)
{
    SL_TRY(sl_cuda_enter());
    if (!piece->bytes)
        *piece = {sl_cuda_alloc(bytes), bytes};
    if (!piece->bytes)
        return sl_fail_prefix(SL_ENOMEM, "%zu bytes of %s", piece->n, what);
    *out = piece->bytes;
    return SL_OK;
}

} // namespace

int sl_cuda_scratch(void **out)
{
    return take("scratch for sums", kept_scratch.in_use(), SL_SCRATCH_BYTES, out);
}

int sl_cuda_workspace(void **out)
{
    return take("workspace for products", kept_workspace.in_use(), SL_WORKSPACE_BYTES, out);
}

int sl_cuda_room(size_t bytes, void **out)
{
    struct piece *room = kept_room.in_use();
    SL_TRY(sl_cuda_enter());
    if (bytes > room->n) {
        if (room->bytes)
            sl_cuda_free(room->bytes, room->n);
        *room = {nullptr, 0};
    }
    // Half as much again, so that batches that grow a little do not allocate each time.
    size_t grown = SL_MAX(bytes + bytes / 2, (size_t)1 << 16);
    int rc = take("scratch for rows with many edges", room, grown, out);
    if (rc < 0)
        room->n = 0;
    return rc;
}
