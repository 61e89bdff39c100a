/*
 * config.h - the job file as a C struct, validated.
 *
 * One table (config/keys.c) knows every key: path, type, bounds, default, meaning and where its
 * value lives in struct sl_config. Parsing, "did you mean", --set, the resolved config.json and
 * config/job.schema.json all come from that table.
 */
#ifndef SL_CONFIG_CONFIG_H
#define SL_CONFIG_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_CONFIG_MAX_LAYERS = 8,
    SL_CONFIG_MAX_DEVICES = 64,
    SL_CONFIG_NAME_BYTES = 128,
    SL_CONFIG_PATH_BYTES = 4096,
    SL_CONFIG_MAX_CORES = 64,   // cores of one device
    SL_CONFIG_CORES_MAX = 1024, // highest core number + 1
    SL_CONFIG_MAX_WORKERS = 64, // samplers, and trainers
    SL_CONFIG_MAX_SCHEDULE = 64,
};

enum sl_model_kind { SL_MODEL_GRAPHSAGE, SL_MODEL_GCN };
enum sl_sampler_kind { SL_SAMPLER_KHOP, SL_SAMPLER_WEIGHTED, SL_SAMPLER_WALK };
enum sl_optimizer_kind { SL_OPTIMIZER_SGD, SL_OPTIMIZER_ADAM };
enum sl_update_mode { SL_UPDATE_ORDERED, SL_UPDATE_ASYNC };
enum sl_cache_policy {
    SL_CACHE_NONE,
    SL_CACHE_RANDOM,
    SL_CACHE_DEGREE,
    SL_CACHE_PRESC,
    SL_CACHE_OPTIMAL,
};
enum sl_precision_kind { SL_CONFIG_FP32, SL_CONFIG_BF16 };
enum sl_device_kind { SL_DEVICE_CPU };

// One entry of "devices".
struct sl_device_config {
    enum sl_device_kind kind;
    uint32_t n_cores;
    uint16_t cores[SL_CONFIG_MAX_CORES]; // core numbers, ascending
    uint64_t memory_bytes;               // budget; 0 = not limited
};

// One entry of "schedule": the split changes when that batch of that epoch has been trained.
struct sl_schedule_config {
    uint32_t epoch;
    uint32_t batch; // 0 = at the epoch's beginning
    uint32_t samplers, trainers;
};

struct sl_config {
    char name[SL_CONFIG_NAME_BYTES];
    char dataset[SL_CONFIG_PATH_BYTES]; // as given: relative to the working directory

    struct {
        enum sl_model_kind kind;
        uint32_t layers;
        uint32_t hidden;
        double dropout;
        double input_dropout;
    } model;

    struct {
        enum sl_sampler_kind kind;
        uint32_t n_fanout;
        int64_t fanout[SL_CONFIG_MAX_LAYERS]; // fanout[0] next to the seeds; -1 = all
        uint64_t batch_size;
        uint32_t paths, length; // walk
        double restart;
    } sampler;

    struct {
        enum sl_optimizer_kind kind;
        double lr;
        double weight_decay;
        double momentum;          // sgd
        double beta1, beta2, eps; // adam
    } optimizer;

    struct {
        enum sl_update_mode mode;
        uint32_t batches_per_update; // 1 with async
        uint32_t staleness;          // async
    } updates;

    struct {
        enum sl_cache_policy policy;
        uint32_t presample_epochs; // presc
        bool ratio_auto;
        double ratio; // of the vertices; 0 when auto
        bool report_optimal;
    } cache;

    bool devices_auto;  // the text said "auto"; the resolved text lists them, so it parses as false
    uint32_t n_devices; // resolved: one device a physical core when "auto"
    struct sl_device_config devices[SL_CONFIG_MAX_DEVICES];

    struct {
        uint32_t samplers; // resolved: at least 1; where both are auto, a first guess
        uint32_t trainers; // resolved: 0 only on a single device, whose standby trainer trains
        bool samplers_auto, trainers_auto; // the job leaves the number to the broker
        bool switching;
    } allocation;

    uint32_t n_schedule;
    struct sl_schedule_config schedule[SL_CONFIG_MAX_SCHEDULE]; // ascending

    // For tests of the scheduling: a batch takes at least that long. Seconds, 0 = off.
    struct {
        double sample, train, standby;
    } throttle;

    uint64_t arena_bytes; // payload capacity; 0 = auto
    uint32_t epochs;
    uint64_t seed;
    enum sl_precision_kind precision;
    bool digest;

    struct {
        uint32_t every; // 0 = only at the end
        bool full;      // layer-wise over all neighbours
        uint32_t n_fanout;
        int64_t fanout[SL_CONFIG_MAX_LAYERS];
        uint64_t batch_size; // sampled evaluation; resolved: the sampler's unless given
    } evaluate;

    char output[SL_CONFIG_PATH_BYTES];
};

// One `--set path=value`, in the order given on the command line.
struct sl_config_override {
    const char *text;
};

/*
 * Reads and validates a job file, applies the overrides (value is JSON, or a bare string) and
 * resolves "auto" devices and the split against this machine's cores. Call it before the process
 * pins itself: a core outside its affinity counts as one that it may not use.
 * SL_OK, or SL_EINVAL / SL_ENOENT / SL_EACCESS / SL_EFORMAT (not JSON) / SL_EIO with a message that
 * names file, JSON path, what was found, what is allowed and what to do; *out is then not usable.
 */
int sl_config_load(const char *path, const struct sl_config_override *overrides, size_t n_overrides,
                   struct sl_config *out);

// The same from text already in memory; `origin` names it in messages (and the job, when the text
// does not: its last part without ".json").
int sl_config_parse(const char *text, size_t length, const char *origin, struct sl_config *out);

// For a worker, `who` in messages: reads the configuration that the broker resolved, then pins the
// calling thread, and all that it starts, to the cores of that device. SL_EINVAL when the job has
// no such device or a core can not be had; else as sl_config_parse().
int sl_config_take_device(const char *text, size_t length, uint32_t device, const char *who,
                          struct sl_config *out);

// The resolved configuration as JSON text (owned by the caller: free(); NULL without memory). It
// parses back to the same but for devices_auto. "auto" in "allocation" stays, since the number is
// a function of the devices and the broker must know that it may choose.
char *sl_config_to_json(const struct sl_config *config);

// The JSON Schema of the job file (owned: free(); NULL without memory); config/job.schema.json
// holds exactly this, so it is printed without another newline.
char *sl_config_schema(void);

// Words used in files and messages.
const char *sl_model_kind_name(enum sl_model_kind kind);
const char *sl_device_kind_name(enum sl_device_kind kind);

#endif
