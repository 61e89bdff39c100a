#include "trainer/room.h"

#include "common/base/error.h"

void sl_room_fini(struct sl_room *room)
{
    if (room->p && room->place == SL_ROOM_DEVICE)
        room->device->memory.free(room->p, room->bytes);
    else if (room->p)
        room->device->host_free(room->p, room->bytes);
    *room = (struct sl_room){0};
}

int sl_room_grow(struct sl_room *room, const struct sl_device *device, enum sl_room_place place,
                 size_t bytes, const char *what)
{
    if (room->p && bytes <= room->bytes)
        return SL_OK;
    sl_room_fini(room);
    size_t want = bytes + bytes / 8 + (bytes == 0);
    void *p = place == SL_ROOM_DEVICE ? device->memory.alloc(want) : device->host_alloc(want);
    if (!p)
        return sl_fail_prefix(SL_ENOMEM,
                              "no memory for %zu MiB of %s: make sampler.batch_size or the fanout "
                              "smaller",
                              want >> 20, what);
    *room = (struct sl_room){.p = p, .bytes = want, .device = device, .place = place};
    return SL_OK;
}
