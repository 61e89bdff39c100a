#include "nodes/room.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/base/error.h"
#include "common/text/units.h"

const char *sl_room_temp(void)
{
    const char *temp = getenv("TMPDIR");
    return temp && *temp ? temp : "/tmp";
}

int sl_room_look_at(const char *folder, uint64_t wanted, struct sl_facts *facts)
{
    char left[SL_UNITS_BYTES], least[SL_UNITS_BYTES];
    struct statvfs fs;
    if (statvfs(folder, &fs) != 0 || fs.f_blocks == 0) // it has none, or no limit
        return SL_OK;
    const uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes >= wanted)
        return SL_OK;
    return sl_facts_add(facts, SL_FACT_WARNING, "",
                        "%.300s has %s left, and MPI keeps files there: wanted at least %s: make "
                        "room, or MPI may end a job with errors of its own, or a bus error",
                        folder, sl_units_bytes(left, (double)bytes),
                        sl_units_bytes(least, (double)wanted));
}

int sl_room_look(struct sl_facts *facts)
{
    SL_TRY(sl_room_look_at("/dev/shm", SL_ROOM_WANTED_BYTES, facts));
    return sl_room_look_at(sl_room_temp(), SL_ROOM_WANTED_BYTES, facts);
}
