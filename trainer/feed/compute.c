#include "trainer/feed/compute.h"

#include <inttypes.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/arena/seat.h"

static int open_gpu(const struct sl_device_config *config, struct sl_compute *out)
{
    SL_TRY(sl_kernels_open_gpu(config->index, config->memory_bytes, &out->device, &out->kernels));
    uint64_t free_bytes = 0, total_bytes = 0;
    SL_TRY(out->device->space(&free_bytes, &total_bytes));
    sl_log_info("computes on GPU %" PRIu32 ": %" PRIu64 " of %" PRIu64 " MiB may be taken",
                config->index, free_bytes >> 20, total_bytes >> 20);
    out->host = sl_kernels_cpu();
    return SL_OK;
}

int sl_compute_open(const struct sl_device_config *config, struct sl_compute *out)
{
    if (config->kind == SL_DEVICE_CUDA)
        return open_gpu(config, out);
    *out = (struct sl_compute){
        .device = sl_device_host(), .kernels = sl_kernels_cpu(), .host = sl_kernels_cpu()};
    return SL_OK;
}

int sl_compute_follow_cores(const struct sl_arena *arena, uint32_t device, uint32_t *seen)
{
    struct sl_cores cores;
    bool others = sl_seat_take_cores(arena, sl_seat_trainer(arena, device), seen, &cores);
    return others ? sl_kernels_take_cores(&cores) : SL_OK;
}

// --- buffer --------------------------------------------------------------------------------------

void sl_buffer_fini(struct sl_buffer *room)
{
    if (room->p && room->place == SL_BUFFER_DEVICE)
        room->device->memory.free(room->p, room->bytes);
    else if (room->p)
        room->device->host_free(room->p, room->bytes);
    *room = (struct sl_buffer){0};
}

int sl_buffer_grow(struct sl_buffer *room, const struct sl_device *device,
                   enum sl_buffer_place place, size_t bytes, const char *what)
{
    if (room->p && bytes <= room->bytes)
        return SL_OK;
    sl_buffer_fini(room);
    size_t want = bytes + bytes / 8 + (bytes == 0);
    void *p = place == SL_BUFFER_DEVICE ? device->memory.alloc(want) : device->host_alloc(want);
    const double mib = (double)want / (1 << 20);
    if (!p && place == SL_BUFFER_DEVICE && !device->is_host) // it has said what to do
        return sl_fail_prefix(SL_ENOMEM, "no memory for %.1f MiB of %s", mib, what);
    if (!p)
        return sl_fail_prefix(SL_ENOMEM,
                              "no memory for %.1f MiB of %s: make sampler.batch_size, "
                              "sampler.fanout or evaluate.fanout smaller",
                              mib, what);
    *room = (struct sl_buffer){.p = p, .bytes = want, .device = device, .place = place};
    return SL_OK;
}
