#include "common/schema/stats.h"

const char *const sl_stats_stage_names[SL_LIVE_STAGES] = {
    "sample", "mark", "copy", "extract", "train", "evaluate", "wait", "backpressure",
};

const enum sl_live_stage sl_stats_histograms[SL_STATS_HISTOGRAMS] = {
    SL_LIVE_SAMPLE, SL_LIVE_EXTRACT, SL_LIVE_TRAIN, SL_LIVE_WAIT};

enum {
    TYPE_real = SL_FIELD_REAL,
    TYPE_whole = SL_FIELD_WHOLE,
    TYPE_time = SL_FIELD_TIME,
    TYPE_flag = SL_FIELD_FLAG,
    TYPE_text = SL_FIELD_TEXT,
};

#define FIELD(of, object, type, member, ...)                                                       \
    {#object #member, (enum sl_field_type)TYPE_##type, offsetof(struct of, object member),         \
     __VA_ARGS__},
#define OF_STATS(object, type, member, ...) FIELD(sl_stats, object, type, member, __VA_ARGS__)
#define OF_DEVICE(object, type, member, ...)                                                       \
    FIELD(sl_stats_device, object, type, member, __VA_ARGS__)
#define OF_WORKER(object, type, member, ...)                                                       \
    FIELD(sl_stats_worker, object, type, member, __VA_ARGS__)
#define OF_STAGE(object, type, member, ...) FIELD(sl_stats_stage, object, type, member, __VA_ARGS__)
#define OBJECT(path)                        {path, SL_FIELD_OBJECT, 0, SL_JSON},
#define PART(path)                          {path, SL_FIELD_PART, 0, SL_JSON},

// clang-format off
static const struct sl_field stats_fields[] = {
    SL_STATS_JOB(OF_STATS)
    OBJECT("metric") SL_STATS_METRIC(OF_STATS)
    OBJECT("best") SL_STATS_BEST(OF_STATS)
    SL_STATS_SPLIT(OF_STATS)
    SL_STATS_STANDBY(OF_STATS)
    PART("devices")
    SL_STATS_PLACES(OF_STATS)
    PART("workers")
    PART("stages")
    SL_STATS_RATES(OF_STATS)
    SL_STATS_BYTES(OF_STATS)
    SL_STATS_QUEUE(OF_STATS)
    SL_STATS_CACHE(OF_STATS)
    SL_STATS_UPDATES(OF_STATS)
    OBJECT("updates.group") SL_STATS_GROUP(OF_STATS)
    SL_STATS_PROFILE(OF_STATS)
    SL_STATS_BOTTLENECK(OF_STATS)
    OBJECT("advice") SL_STATS_ADVICE(OF_STATS)
    SL_STATS_TOTALS(OF_STATS)
    PART("histograms")
    SL_STATS_MEMORY(OF_STATS)
    SL_STATS_LOAD(OF_STATS)
};
static const struct sl_field device_fields[] = {
    SL_STATS_DEVICE(OF_DEVICE) PART("roles") SL_STATS_DEVICE_USE(OF_DEVICE)
};
static const struct sl_field worker_fields[] = {SL_STATS_WORKER(OF_WORKER)};
static const struct sl_field stage_fields[] = {SL_STATS_STAGE(OF_STAGE)};
// clang-format on

const struct sl_fields sl_stats_fields = SL_FIELDS(stats_fields);
const struct sl_fields sl_stats_device_fields = SL_FIELDS(device_fields);
const struct sl_fields sl_stats_worker_fields = SL_FIELDS(worker_fields);
const struct sl_fields sl_stats_stage_fields = SL_FIELDS(stage_fields);
