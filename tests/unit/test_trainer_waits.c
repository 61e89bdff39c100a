// How often a trainer on a GPU waits for it: the whole of it, on a real arena, counted by the
// emulated GPU (tests/simt/counts.h), a mini-batch.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include "trainer/feed/arena_access.h"

enum { NODES = 200, FEATURES = 6, CLASSES = 4, DEVICE = 2, HIDDEN = 6, ROUNDS = 4, WARM = 2 };

static const struct {
    const char *name;
    enum sl_model_kind kind;
    bool no_self_loops;
} models[] = {
    {"graphsage", SL_MODEL_GRAPHSAGE, false},
    {"gcn", SL_MODEL_GCN, false},
    {"gcn without self-loops", SL_MODEL_GCN, true},
    {"gat", SL_MODEL_GAT, false},
    {"gatv2", SL_MODEL_GATV2, false},
    {"gin", SL_MODEL_GIN, false},
};

static struct sl_config config_of(size_t model, uint32_t layers)
{
    struct sl_config c = fixture_config(models[model].kind, layers, HIDDEN);
    for (uint32_t l = 0; l < layers; l++)
        c.sampler.fanout[l] = 3;
    c.model.self_loops = !models[model].no_self_loops;
    c.model.dropout = 0.3;
    return c;
}

// What the last epochs of several equal ones take; the first ones let buffers grow.
static struct simt_counts count_epochs(struct farm *f)
{
    struct simt_counts before = {0}, after;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM)
            ck_assert(gpu_counts(&before));
        farm_wait(f, farm_open_train(f, 0));
        farm_until(sl_param_store_version(&f->arena) == f->version);
    }
    ck_assert(gpu_counts(&after));
#define DIFFERENCE(name, text) after.name -= before.name;
    SIMT_COUNTS(DIFFERENCE)
#undef DIFFERENCE
    return after;
}

struct found {
    struct simt_counts counts; // of the last epochs
    uint64_t batches;          // of these
    float *params;             // after them
    uint64_t n_params;
};

static struct found train(const struct sl_config *c, enum sl_gather_way way, bool counts_loops)
{
    struct fixture_graph g = fixture_graph(NODES, FEATURES, CLASSES, 31);
    fixture_add_loops(&g);
    static const struct sl_plugin *plugin;
    if (!plugin)
        plugin = gpu_open(0);
    const struct sl_compute gpu = {plugin->device, plugin->kernels, sl_kernels_cpu()};
    struct farm f;
    struct farm_trainer t = {.farm = &f, .worker = 1, .device = DEVICE};
    struct sl_arena_access access;
    const struct sl_group_member alone = {1, DEVICE};
    farm_init(&f, c, &g, sl_kernels_ref());
    f.collective = plugin->collective;
    farm_publish_order(&f, 1);
    sl_arena_access_open(&access, gpu.device, &f.arena);
    ck_assert_int_eq(sl_model_init(&t.model, c, FEATURES, NULL, fixture_objective(CLASSES),
                                   gpu.device, gpu.kernels),
                     SL_OK);
    sl_gather_init(&t.gather, &gpu, &g.ds, way);
    t.gather.counts_loops = counts_loops && sl_model_drops_loops(&t.model);
    atomic_store(&farm_seat(&f, DEVICE)->cache_rows, NODES / 2);
    farm_set_duty(&f, DEVICE, SL_DUTY_WORK);
    farm_start_sampler(&f);
    if (c->updates.exchange == SL_EXCHANGE_NCCL)
        sl_group_form(&f.arena, &alone, 1);
    ck_assert_int_eq(pthread_create(&t.thread, NULL, farm_train, &t), 0);
    struct found found = {.counts = count_epochs(&f),
                          .batches = (ROUNDS - WARM) * farm_batches(&f),
                          .n_params = f.model.n_params};
    found.params = fixture_alloc(found.n_params * sizeof *found.params);
    memcpy(found.params, sl_param_store_params(&f.arena, f.version),
           found.n_params * sizeof *found.params);
    atomic_store(&t.stop, true);
    pthread_join(t.thread, NULL);
    ck_assert_int_eq(t.rc, SL_OK);
    sl_arena_access_close(&access);
    farm_release(&t);
    farm_fini(&f);
    fixture_graph_free(&g);
    return found;
}

// One wait of the thread that extracts, one of the thread that computes, whatever the model and its
// depth; and nothing crosses the bus in a way that waits. Where the cache misses some and the
// processor brings them, the thread that extracts also waits for their list.
static void assert_bound(const struct found *f, enum sl_gather_way way, uint64_t updates)
{
    const struct simt_counts *n = &f->counts;
    const uint64_t batches = f->batches, lists = way == SL_GATHER_STAGED ? batches : 0;
    ck_assert_uint_eq(n->waits, 2 * batches + lists + updates);
    ck_assert_uint_eq(n->pageable_to, 0);
    ck_assert_uint_eq(n->pageable_from, 0);
    ck_assert_uint_eq(n->stops, 0);
    printf("  a batch: %.1f launches, %.0f + %.0f bytes to and from the device in %.1f copies\n",
           (double)n->launches / (double)batches, (double)n->pinned_to_bytes / (double)batches,
           (double)n->pinned_from_bytes / (double)batches,
           (double)(n->pinned_to + n->pinned_from) / (double)batches);
}

// Each way at each depth of the first model, one of these of the others.
enum { WAYS = 2, DEPTHS = 2, CASES = WAYS * DEPTHS + (int)SL_COUNT_OF(models) - 1 };

LOOP_TEST(a_batch_is_waited_for_once_by_either_thread, 0, CASES)
{
    static const enum sl_gather_way ways[WAYS] = {SL_GATHER_STAGED, SL_GATHER_MAPPED};
    const size_t model = (size_t)SL_MAX(_i - WAYS * DEPTHS + 1, 0);
    const struct sl_config c = config_of(model, 2 + (uint32_t)_i % DEPTHS);
    const enum sl_gather_way way = ways[_i / DEPTHS % WAYS];
    struct found found = train(&c, way, true);
    printf("%s, %u layers, %s:\n", models[model].name, c.model.layers,
           way == SL_GATHER_MAPPED ? "features in place" : "features through copies");
    assert_bound(&found, way, 0);
    free(found.params);
}

// Where gradients are summed on the GPU a batch's goes into the sum without another wait; what is
// written to the board once an update is waited for.
TEST(an_update_is_waited_for_once_more)
{
    struct sl_config c = config_of(0, 2);
    c.updates.exchange = SL_EXCHANGE_NCCL;
    c.updates.batches_per_update = 3;
    struct found found = train(&c, SL_GATHER_MAPPED, true);
    ck_assert_uint_eq(found.batches % c.updates.batches_per_update, 0);
    printf("%s, sums on the GPU:\n", models[0].name);
    assert_bound(&found, SL_GATHER_MAPPED, found.batches / c.updates.batches_per_update);
    free(found.params);
}

// Edges that are counted ahead are those that layers count themselves.
LOOP_TEST(loops_that_came_with_the_batch_change_no_bit, 0, SL_COUNT_OF(models))
{
    struct sl_config c = config_of((size_t)_i, 2);
    c.model.aggregator = SL_AGGREGATOR_GCN;
    struct found with = train(&c, SL_GATHER_MAPPED, true);
    struct found without = train(&c, SL_GATHER_MAPPED, false);
    const bool drops = models[_i].kind != SL_MODEL_GIN && !models[_i].no_self_loops;
    ck_assert(drops == (without.counts.pageable_from > 0));
    ck_assert_mem_eq(with.params, without.params, with.n_params * sizeof *with.params);
    free(with.params);
    free(without.params);
}

RUN_TESTS(.quiet = true, .timeout_s = 60, ON_A_GPU)
