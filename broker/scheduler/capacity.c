#include "broker/scheduler/capacity.h"

#include <math.h>
#include <stdio.h>

#include "broker/epochs/phases.h"
#include "broker/sharding/shard_preference.h"
#include "common/arena/asks.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"

_Static_assert((int)SL_CONFIG_MAX_WINDOW <= (int)SL_ROW_CACHE_WINDOW_MAX,
               "what a row's word holds");

enum {
    SPARE_BATCHES = 16,
    AVAILABLE_SHARE = 4,
    HOT_SHARE = 3, // of HOT_OF slots may hold hot rows, which leaves some to those of the window
    HOT_OF = 4,
    COUNTED_OF = 16, // epochs of the job, one whose visits are counted
    COUNTED_MOST = 8,
    PIN_DIVISOR = 2, // of the memory that is available, what a copy may take for good
};

static uint64_t saturating_product(uint64_t a, uint64_t b)
{
    uint64_t out;
    return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX / 2 : out;
}

// With switching, an epoch's batches all lie ready before the samplers' devices train.
static uint64_t whole_epoch(const struct sl_config *config, const struct sl_capacity_need *need)
{
    if (!sl_placement_switches(config, 0))
        return 0;
    uint64_t one = sl_align_up(SL_MAX(need->block_bytes_mean, 1u), SL_ARENA_CHUNK_BYTES);
    uint64_t batches = sl_div_up(need->n_train, SL_MAX(config->sampler.batch_size, 1u));
    return saturating_product(one + SL_ARENA_CHUNK_BYTES, batches + SPARE_BATCHES);
}

static bool reads(const struct sl_config *config)
{
    return sl_features_kinds[config->store.features].reads;
}

// By the whole job, of pairs for their ends and those of negatives.
static double sampled_edges(const struct sl_config *config, const struct sl_dataset *ds)
{
    const double seeds = sl_config_is_links(config) ? 2 + sl_config_sampling(config).negatives : 1;
    const double passes = config->epochs / (double)SL_MAX(config->order.epochs_per_pass, 1u);
    if (sl_config_is_endless(config))
        return INFINITY;
    return seeds * sl_store_guess_edges(config, ds) * passes *
           (double)sl_phases_pass_batches(config, ds->split[SL_SPLIT_TRAIN].n);
}

// Where "auto" counts visits: whole passes, more in longer jobs, and not all epochs. An R-MAT graph
// of 160 M edges, 16 mini-batches an epoch, a cache of a fifth of the rows: 79, 85, 90 and 93 %
// hits by 1, 2, 4 and 8 epochs, and 96 % by expected visits.
static uint32_t counted_epochs(const struct sl_config *config)
{
    const uint32_t pass = SL_MAX(config->order.epochs_per_pass, 1u);
    const uint32_t share = config->epochs / COUNTED_OF / pass;
    return SL_MIN(SL_MIN(SL_MAX(share, 1u), (uint32_t)COUNTED_MOST) * pass, config->epochs - 1);
}

void sl_capacity_settle_store(struct sl_config *config, const struct sl_dataset *ds,
                              uint64_t available_bytes)
{
    const bool gpus = sl_config_trains_on(config, SL_DEVICE_CUDA);
    if (config->store.features == SL_FEATURES_AUTO)
        config->store.features = sl_features_choose(ds, available_bytes);
    config->store.features = sl_features_settle(config->store.features, ds);
    const struct sl_cache_site site = {
        .gpus = gpus,
        .reads = reads(config),
        .uniform = sl_sampler_flags[config->sampler.kind] & SL_SAMPLER_UNIFORM,
        .once = config->epochs == 1,
        .passed = (double)ds->n_edges * config->sampler.n_fanout,
        .sampled = sampled_edges(config, ds),
    };
    config->cache.policy = sl_cache_choose(config->cache.policy, &site, &config->cache.why);
    if (config->cache.why && sl_cache_kinds[config->cache.policy].counts == SL_VISITS_FIRST)
        config->cache.presample_epochs = counted_epochs(config);
}

int sl_capacity_rows(const struct sl_config *config, uint64_t n_nodes,
                     const struct sl_row_widths *widths, uint64_t available_bytes,
                     struct sl_row_cache_shape *out)
{
    // Words: two for every row of the data set; the slots' lie with their rows.
    const uint64_t words = 2 * sizeof(uint32_t) * n_nodes;
    const uint64_t bytes =
        config->store.cache_bytes ? config->store.cache_bytes : available_bytes / AVAILABLE_SHARE;
    const uint64_t seeds = config->sampler.batch_size;
    const uint64_t least = words + sl_row_widths_bytes(widths, seeds);
    char found[SL_UNITS_BYTES], wanted[SL_UNITS_BYTES];
    *out = (struct sl_row_cache_shape){0};
    if (!reads(config) || widths->n == 0)
        return SL_OK;
    if (widths->n > SL_ROW_WIDTHS_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "store.features: found \"%s\" with features of more than %d widths, which "
                       "a cache of rows does not tell apart: set it to \"memory\"",
                       sl_features_kinds[config->store.features].word, SL_ROW_WIDTHS_MAX);
    if (bytes < least)
        return sl_fail(SL_ENOMEM,
                       "store.cache: found %s%s, wanted at least %s, for the rows of a mini-batch "
                       "and 8 bytes for each vertex: set store.cache to %llu or more",
                       sl_units_exact_bytes(found, bytes),
                       config->store.cache_bytes ? ""
                                                 : ", a quarter of the memory that is available",
                       sl_units_exact_bytes(wanted, least), (unsigned long long)least);
    *out = (struct sl_row_cache_shape){.n_rows = n_nodes, .window = config->store.window};
    sl_row_widths_divide(widths, bytes - words, seeds, out);
    if (sl_cache_keeps(config->cache.policy))
        out->n_hot = out->n_slots / HOT_OF * HOT_SHARE;
    return SL_OK;
}

enum sl_store_way sl_capacity_store_way(const struct sl_config *config,
                                        const struct sl_shard_inputs *q)
{
    const uint64_t most = SL_MIN(q->available_bytes, q->spare_bytes) / PIN_DIVISOR;
    if (!q->gpus)
        return SL_STORE_WAY_NONE;
    if (reads(config))
        return SL_STORE_WAY_DRIVE;
    if (q->types)
        return SL_STORE_WAY_TYPES;
    if (q->cached)
        return SL_STORE_WAY_CACHED;
    if (q->feature_bytes > most)
        return config->memory_bytes ? SL_STORE_WAY_BOUND : SL_STORE_WAY_LARGE;
    return SL_STORE_WAY_COPY;
}

// Of a mini-batch in the arena.
static uint64_t block_room(uint64_t bytes)
{
    return sl_align_up(SL_MAX(bytes, 1u), SL_ARENA_CHUNK_BYTES);
}

uint64_t sl_capacity_batches(uint64_t payload_bytes, uint64_t block_bytes_max)
{
    return payload_bytes / block_room(block_bytes_max);
}

// `where`: of what was found; `mend`: what to do beside another size.
static int check_split(uint64_t payload, uint64_t block_bytes_max, struct sl_roles split,
                       const char *where, const char *mend)
{
    const uint64_t one = block_room(block_bytes_max), batches = sl_placement_batches(split);
    const uint64_t least = saturating_product(one, batches);
    char found[SL_UNITS_BYTES], wanted[SL_UNITS_BYTES], block[SL_UNITS_BYTES];
    if (payload >= least)
        return SL_OK;
    return sl_fail(SL_ENOMEM,
                   "arena.memory: found %s%s, wanted at least %s: the largest mini-batch measured "
                   "takes %s, and %s and %s hold %llu of them at once: set "
                   "arena.memory to %llu%s",
                   sl_units_exact_bytes(found, payload), where, sl_units_exact_bytes(wanted, least),
                   sl_units_exact_bytes(block, one), SL_PLURAL(split.samplers, "sampler"),
                   SL_PLURAL(split.trainers, "trainer"), (unsigned long long)batches,
                   (unsigned long long)least, mend);
}

int sl_capacity_check_split(uint64_t payload_bytes, uint64_t block_bytes_max, struct sl_roles split)
{
    return check_split(payload_bytes, block_bytes_max, split, "",
                       " and go on from the last checkpoint (sluice resume), or ask for fewer "
                       "workers");
}

// SL_ENOMEM: the arena is to have `total` bytes of which its activations may be most; at least
// `least_payload` of them are for blocks.
static int fail_too_large(const struct sl_arena_spec *spec, uint64_t total,
                          uint64_t available_bytes, bool by_activations, uint64_t least_payload)
{
    char found[SL_UNITS_BYTES], wanted[SL_UNITS_BYTES];
    if (by_activations)
        return sl_fail(SL_ENOMEM,
                       "the arena needs %s, found %s available: %llu vertices of %u activations "
                       "for evaluate.fanout \"full\" take most of it: give evaluate.fanout a list, "
                       "set arena.activations to \"auto\", take a smaller model.hidden, or free "
                       "memory",
                       sl_units_exact_bytes(wanted, total),
                       sl_units_exact_bytes(found, available_bytes),
                       (unsigned long long)spec->act_rows, spec->act_width);
    return sl_fail(SL_ENOMEM,
                   "the arena needs %s, found %s available: set arena.memory to at most %llu "
                   "(at least %llu is needed), or take a smaller sampler.batch_size, "
                   "sampler.fanout, model.hidden or store.cache",
                   sl_units_exact_bytes(wanted, total),
                   sl_units_exact_bytes(found, available_bytes),
                   (unsigned long long)(available_bytes -
                                        SL_MIN(total - spec->payload_bytes, available_bytes)),
                   (unsigned long long)least_payload);
}

// Of a shard: what is asked of other nodes, and slots for that alone where the rest is mapped. Of
// the hottest rows only those of others lie in slots.
static void plan_shard(const struct sl_config *config, const struct sl_capacity_need *need,
                       struct sl_arena_spec *out)
{
    struct sl_row_cache_shape *rows = &out->rows;
    uint64_t widest = 0, elsewhere = 0;
    if (need->n_shards == 0 || rows->n_slots == 0)
        return;
    for (uint32_t w = 0; w < need->widths.n; w++)
        widest = SL_MAX(widest, need->widths.of[w].row_bytes);
    out->asks = sl_asks_shape(config->n_devices, need->n_shards, need->n_nodes, widest);
    if (sl_features_kinds[config->store.features].drive)
        return;
    rows->n_slots = 0;
    for (uint32_t w = 0; w < rows->n_widths; w++) {
        const uint64_t most = SL_MAX(need->widths.of[w].n_elsewhere, (uint64_t)1);
        rows->width[w].n_slots = SL_MIN(rows->width[w].n_slots, most);
        rows->n_slots += rows->width[w].n_slots;
        elsewhere += most;
    }
    // n_slots is at most the divisor.
    if (rows->n_hot)
        rows->n_hot = (uint64_t)((double)rows->n_slots / (double)elsewhere * (double)need->n_nodes /
                                 HOT_OF * HOT_SHARE);
}

int sl_capacity_plan(const struct sl_config *config, const struct sl_capacity_need *need,
                     uint64_t available_bytes, struct sl_arena_spec *out, uint64_t *acts_bytes)
{
    char advice[160];
    const struct sl_roles split = {need->samplers, SL_MAX(need->trainers, 1u)};
    const uint64_t one = block_room(need->block_bytes_max);
    const uint64_t batches = SL_MAX(sl_placement_batches(split), need->batches_most);
    uint64_t payload = config->arena_bytes;
    if (payload == 0) {
        const uint64_t ahead = reads(config) ? config->store.window : 0;
        uint64_t several = saturating_product(one, batches - 1 + SPARE_BATCHES + ahead);
        uint64_t epoch = whole_epoch(config, need);
        payload = SL_MIN(SL_MAX(several, epoch), available_bytes / AVAILABLE_SHARE);
    }
    snprintf(advice, sizeof advice,
             "%s, or take a smaller %ssampler.batch_size or sampler.fanout, or fewer workers",
             config->arena_bytes ? "" : " if the machine can spare it",
             sl_config_evaluates_all(config) ? "evaluate.batch_size, " : "");
    SL_TRY(check_split(payload, need->block_bytes_max, split,
                       config->arena_bytes ? "" : ", a quarter of the memory that is available",
                       advice));

    *out = (struct sl_arena_spec){
        .n_devices = config->n_devices,
        .n_cells = need->n_cells,
        .n_train = need->n_train,
        .world = need->world,
        .n_params = need->n_params,
        .n_state = config->optimizer.kind == SL_OPTIMIZER_SGD ? 1 : 2,
        .async = config->updates.mode == SL_UPDATE_ASYNC,
        .staleness = config->updates.staleness,
        .exchange = config->updates.exchange == SL_EXCHANGE_NCCL,
        .batches_per_update = config->updates.batches_per_update,
        .probe_bytes = need->probe_bytes,
        .predict_rows = need->n_evaluated,
        .predict_words = need->predict_words,
        .payload_bytes = payload,
    };
    // Layer-wise inference keeps the hidden activations of all vertices, of the layer that is read
    // and the one that is written; the last layer's output is only counted, but of links.
    const uint32_t kept = config->model.layers - !sl_config_is_links(config);
    if (config->evaluate.full && (kept > 0 || need->jumping_width)) {
        out->act_banks = SL_MIN(kept, 2u);
        out->act_rows = need->n_nodes;
        out->act_width = need->infer_width;
        out->jumping_width = need->jumping_width;
    }
    if (sl_cache_keeps(config->cache.policy)) {
        bool counts = sl_cache_kinds[config->cache.policy].counts != SL_VISITS_NONE ||
                      config->cache.report_optimal;
        out->hot_rows = need->n_nodes;
        out->visit_rows = counts ? need->n_nodes : 0;
    }
    SL_TRY(sl_capacity_rows(config, need->n_nodes, &need->widths, available_bytes, &out->rows));
    plan_shard(config, need, out);
    if (reads(config))
        out->fetch_ahead = SL_MAX(config->store.window, 2 * config->n_devices);
    uint64_t width = (uint64_t)out->act_banks * out->act_width + out->jumping_width;
    uint64_t acts = 4 * saturating_product(out->act_rows, width);
    struct sl_arena_header layout;
    bool absurd = acts >= UINT64_MAX / 4;
    uint64_t total = absurd ? acts : sl_arena_layout(out, &layout);
    *acts_bytes = 0;
    if (!absurd && (config->activations == SL_ACTIVATIONS_FILE ||
                    (config->activations == SL_ACTIVATIONS_AUTO &&
                     (total > available_bytes ||
                      (config->memory_bytes && acts > available_bytes / AVAILABLE_SHARE)))))
        *acts_bytes = layout.region[SL_REGION_ACTS].bytes;
    total -= *acts_bytes;
    if (total <= available_bytes)
        return SL_OK;
    return fail_too_large(out, total, available_bytes, *acts_bytes == 0 && acts > total / 2,
                          saturating_product(one, sl_placement_batches(split)));
}
