#include "trainer/feed/buffer.h"

#include "common/base/error.h"

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
    if (!p)
        return sl_fail_prefix(SL_ENOMEM,
                              "no memory for %zu MiB of %s: make sampler.batch_size or the fanout "
                              "smaller",
                              want >> 20, what);
    *room = (struct sl_buffer){.p = p, .bytes = want, .device = device, .place = place};
    return SL_OK;
}
