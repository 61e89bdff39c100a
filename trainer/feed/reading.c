#include "trainer/feed/reading.h"

static bool stops(void *ctx)
{
    return sl_heartbeat_stopping(ctx);
}

int sl_reading_open(struct sl_reading *r, const struct sl_dataset *dataset,
                    const struct sl_heartbeat *pulse, uint32_t depth)
{
    r->pulse = *pulse;
    const struct sl_row_options options = {.depth = depth, .stopping = stops, .ctx = &r->pulse};
    return sl_row_reader_open(dataset, &options, &r->reader);
}
