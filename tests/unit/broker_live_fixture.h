/*
 * broker_live_fixture.h - an arena whose work the test does itself, and a job around it: what a
 * look at it finds, and the line of statistics.
 */
#ifndef SL_TESTS_UNIT_BROKER_LIVE_FIXTURE_H
#define SL_TESTS_UNIT_BROKER_LIVE_FIXTURE_H

#include <unistd.h>

#include "broker/job/job.h"
#include "common/base/clock.h"
#include "common/arena/param_store.h"
#include "common/arena/seat.h"
#include "tests/unit/json_at.h"
#include "tests/unit/test_data_fixture.h"

enum { N_CELLS = 40, MS = 1000000, PER_UPDATE = 4 };

static const uint64_t SECOND = 1000000000;

static struct sl_job job;
static struct sl_pool_worker workers[4]; // two devices: samplers 0 and 1, trainers 2 and 3
static struct sl_worker_death deaths[4];
static bool async;
static uint32_t n_nodes;      // of the job, of which this is the first; 0: there is one
static struct sl_typed typed; // of its graph

static inline void make_job(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = 2,
        .n_cells = N_CELLS,
        .n_train = 10 * N_CELLS,
        .n_params = 3,
        .n_state = 1,
        .async = async,
        .staleness = 2,
        .batches_per_update = async ? 1 : PER_UPDATE,
        .payload_bytes = 4 * SL_ARENA_CHUNK_BYTES,
        .nodes.n = n_nodes,
        .n_types = typed.n_types,
        .n_relations = typed.n_relations,
    };
    memset(&job, 0, sizeof job);
    memset(workers, 0, sizeof workers);
    job.state = SL_JOB_RUNNING;
    job.start_ns = sl_now_ns();
    snprintf(job.config.name, sizeof job.config.name, "test");
    job.config.epochs = 3;
    job.config.n_devices = 2;
    job.config.sampler.batch_size = 10;
    job.config.updates.mode = async ? SL_UPDATE_ASYNC : SL_UPDATE_ORDERED;
    job.config.updates.batches_per_update = spec.batches_per_update;
    job.config.updates.staleness = 2;
    job.config.cache.policy = SL_CACHE_DEGREE;
    job.dataset.split[SL_SPLIT_TRAIN].n = 10 * N_CELLS;
    job.dataset.typed = typed;
    for (uint32_t d = 0; d < 2; d++)
        job.config.devices[d] = (struct sl_device_config){.n_cores = 1, .cores = {(uint16_t)d}};
    sl_job_wire(&job);
    job.split.roles = (struct sl_roles){1, 1};
    job.split.stage = SL_SPLIT_RUNS;
    job.deaths.of = deaths;
    job.workers.n = 4;
    job.workers.list = workers;
    for (uint32_t i = 0; i < 4; i++) {
        workers[i].role = i < 2 ? SL_ROLE_SAMPLER : SL_ROLE_TRAINER;
        workers[i].device = i % 2;
        workers[i].slot = i;
        workers[i].pid = getpid();
        snprintf(workers[i].name, sizeof workers[i].name, "%s %u", i < 2 ? "sampler" : "trainer",
                 i % 2);
        workers[i].wanted = workers[i].alive = workers[i].ready = i == 0 || i == 3;
    }
    int fd = sl_arena_memfd();
    must(fd);
    must(sl_arena_create(fd, &spec, &job.arena));
    job.phases.arena = &job.arena;
    job.phases.setup.plan.config = &job.config;
    sl_meter_begin(&job.meter);
}

static inline void setup_ordered(void)
{
    async = false;
    make_job();
}

static inline void setup_nodes(void)
{
    n_nodes = 2;
    setup_ordered();
}

static inline void setup_typed(void)
{
    static struct sl_vertex_type types[] = {
        {.name = "paper"}, {.name = "author", .feat_dim = 3, .feat_dtype = SL_DTYPE_F32}};
    static struct sl_relation relations[] = {{.name = "cites"}, {.name = "writes", .source = 1}};
    typed = (struct sl_typed){.n_types = 2, .n_relations = 2, .type = types, .relation = relations};
    setup_ordered();
}

static inline void setup_async(void)
{
    async = true;
    make_job();
}

static inline void teardown(void)
{
    sl_live_fini(&job.live);
    sl_arena_detach(&job.arena);
}

// Opens a phase of n cells, as broker/epochs/phases.c does.
static inline struct sl_open_phase *open_phase(enum sl_phase_kind kind, uint32_t n,
                                               uint64_t first_version,
                                               const struct sl_cell_record *records,
                                               uint32_t n_records)
{
    struct sl_phases *p = &job.phases;
    struct sl_open_phase *o = &p->open[(p->first_open + p->n_open++) % SL_ARENA_PHASES];
    *o = (struct sl_open_phase){
        .spec = {.kind = kind, .batch_size = 10, .n_items = 10 * n, .first_version = first_version},
        .step = {.purpose = kind == SL_PHASE_TRAIN       ? SL_PURPOSE_TRAIN
                            : kind == SL_PHASE_PRESAMPLE ? SL_PURPOSE_PRESAMPLE
                                                         : SL_PURPOSE_VALIDATE}};
    must(sl_ledger_open_restored(&job.arena, &o->spec, records, n_records, &o->seq));
    return o;
}

static inline void close_phase(void)
{
    sl_meter_on_phase(&job.meter, sl_phases_at(&job.phases, 0));
    job.phases.first_open = (job.phases.first_open + 1) % SL_ARENA_PHASES;
    job.phases.n_open--;
}

static inline void sample(void)
{
    struct sl_lease l;
    must(sl_ledger_claim_sample(&job.arena, 1, SL_AHEAD_ALL, 1, &l));
    l.entry->sample_ns = 3 * MS;
    l.entry->mark_ns = 50000; // 0.05 ms: the first bucket
    l.entry->copy_ns = 100000;
    l.entry->n_edges = 100;
    l.entry->n_input = 20;
    l.entry->ready_at_ns = 1000 * MS;
    must(l.phase->spec.kind == SL_PHASE_PRESAMPLE ? sl_ledger_complete(&job.arena, &l)
                                                  : sl_ledger_publish(&job.arena, &l));
}

static inline struct sl_lease claim(void)
{
    struct sl_lease l;
    must(sl_ledger_claim_train(&job.arena, 2, 1, &l));
    return l;
}

static inline void complete(const struct sl_lease *l)
{
    l->entry->claimed_at_ns = 1002 * MS;
    l->entry->extract_ns = 1 * MS;
    l->entry->train_ns = 7 * MS;
    l->entry->train_wait_ns = 200000000000; // more than the last bound
    l->entry->hits = 15;
    l->entry->near_bytes = 300;
    l->entry->hit_bytes = 1500;
    l->entry->miss_bytes = 500;
    l->entry->matched_bytes = 100;
    l->entry->loss = l->entry->weight = 10;
    must(sl_ledger_complete(&job.arena, l));
}

// Writes down how it applies the next update; one that dies does not commit it.
static inline void apply_next(uint32_t applier, bool dies, struct sl_update_entry known)
{
    struct sl_update u;
    must(sl_param_store_begin_update(&job.arena, applier, &u));
    *sl_param_store_update_entry(&job.arena, &u) = known;
    if (!dies)
        sl_param_store_commit_update(&job.arena, &u);
    else
        sl_ledger_reclaim(&job.arena, applier, &(struct sl_reclaimed){0});
}

static inline void train(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_lease l = claim();
        complete(&l);
    }
    struct sl_update u;
    while (sl_param_store_begin_update(&job.arena, 2, &u) == SL_OK)
        sl_param_store_commit_update(&job.arena, &u);
}

static inline void publish_figures(uint32_t slot, uint32_t worker, struct sl_worker_totals figures)
{
    struct sl_worker_slot *s = sl_stats_slot(&job.arena, slot);
    if (!sl_stats_is_of(s, worker))
        sl_stats_begin(s, worker);
    sl_stats_publish(s, &figures);
}

static inline const struct sl_meter *look(void)
{
    sl_meter_read(&job.meter);
    return &job.meter;
}

static inline void publish(uint32_t slot, uint32_t worker, uint64_t batches, uint64_t sample_ns)
{
    publish_figures(slot, worker,
                    (struct sl_worker_totals){.batches = batches, .stage_ns = {sample_ns}});
}

static inline cJSON *line(void)
{
    job.live.line_at_ns = 0;
    cJSON *json = cJSON_Parse(sl_live_line(&job.live));
    ck_assert_msg(json != NULL, "%s", sl_live_line(&job.live));
    return json;
}

#endif
