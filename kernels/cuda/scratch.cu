// Device memory that a thread keeps for its operations: dense.cuh and aggregate_hubs.cuh say what
// for.
#include "kernels/cuda/aggregate_hubs.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/runtime.cuh"

namespace {

/*
 * Pieces end before the thread's queue does: C++ destructors of a thread come before those of
 * pthread keys, so freeing still finds the stream to wait for.
 */
struct piece {
    void *bytes;
    size_t n;

    ~piece()
    {
        if (bytes)
            sl_cuda_free(bytes, n);
    }
};

thread_local struct piece kept_scratch = {nullptr, SL_SCRATCH_BYTES};
thread_local struct piece kept_workspace = {nullptr, SL_WORKSPACE_BYTES};
thread_local struct piece kept_room = {nullptr, 0}; // grows

int take(const char *what, struct piece *piece, void **out)
{
    SL_TRY(sl_cuda_enter());
    if (!piece->bytes)
        piece->bytes = sl_cuda_alloc(piece->n);
    if (!piece->bytes)
        return sl_fail_prefix(SL_ENOMEM, "%zu bytes of %s", piece->n, what);
    *out = piece->bytes;
    return SL_OK;
}

} // namespace

int sl_cuda_scratch(void **out)
{
    return take("scratch for sums", &kept_scratch, out);
}

int sl_cuda_workspace(void **out)
{
    return take("workspace for products", &kept_workspace, out);
}

int sl_cuda_room(size_t bytes, void **out)
{
    struct piece *room = &kept_room;
    SL_TRY(sl_cuda_enter());
    if (bytes > room->n) {
        if (room->bytes)
            sl_cuda_free(room->bytes, room->n);
        // Half as much again, so that batches that grow a little do not allocate each time.
        *room = {nullptr, SL_MAX(bytes + bytes / 2, (size_t)1 << 16)};
    }
    int rc = take("scratch for rows with many edges", room, out);
    if (rc < 0)
        room->n = 0;
    return rc;
}
