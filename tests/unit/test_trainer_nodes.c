// A job on several nodes: real trainers on an arena for each node, and their links in one thread.
#include "tests/unit/trainer_farm.h"

#include "tests/unit/suite.h"
#include "tests/unit/nodes_link.h"
#include "tests/unit/trainer_oracle.h"

struct world {
    uint32_t n;
    struct farm farm[LINK_NODES];
    struct link link;
    pthread_t thread;
    _Atomic bool stop;
};

static void *carry(void *arg)
{
    struct world *w = arg;
    while (!atomic_load(&w->stop))
        if (!link_poll(&w->link))
            farm_sleep_ms(1);
    return NULL;
}

static void world_init(struct world *w, const struct sl_config *config,
                       const struct sl_kernels *kernels, uint32_t n)
{
    memset(w, 0, sizeof *w);
    w->n = w->link.n = n;
    for (uint32_t i = 0; i < n; i++) {
        farm_nodes = (struct sl_nodes_spec){
            .n = n, .rank = i, .whole_gradients = config->optimizer.clip_norm > 0};
        farm_init_small(&w->farm[i], config, kernels);
        w->link.arena[i] = &w->farm[i].arena;
    }
    farm_nodes = (struct sl_nodes_spec){0};
}

static void world_start(struct world *w, uint32_t n_trainers)
{
    for (uint32_t i = 0; i < w->n; i++) {
        farm_start_sampler(&w->farm[i]);
        for (uint32_t t = 0; t < n_trainers; t++)
            farm_start_trainer(&w->farm[i]);
    }
    ck_assert_int_eq(pthread_create(&w->thread, NULL, carry, w), 0);
}

static void world_run(struct world *w)
{
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t seq[LINK_NODES];
        for (uint32_t i = 0; i < w->n; i++)
            seq[i] = farm_open_train(&w->farm[i], epoch);
        for (uint32_t i = 0; i < w->n; i++)
            farm_wait(&w->farm[i], seq[i]);
        for (uint32_t i = 0; i < w->n; i++)
            oracle_check_entries(&w->farm[i], seq[i]);
    }
}

static void world_fini(struct world *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    ck_assert_int_eq(w->link.rc, SL_OK);
    ck_assert_uint_eq(w->link.flips, w->n * w->farm[0].version);
    for (uint32_t i = 0; i < w->n; i++)
        farm_fini(&w->farm[i]);
}

// Parameters, and each node's slice of the state, are those of the one farm.
static void assert_same(struct world *w, struct farm *one)
{
    const uint64_t v = one->version;
    for (uint32_t k = 0; k < w->n; k++) {
        struct sl_arena *a = &w->farm[k].arena;
        const struct sl_nodes_part own = sl_nodes_slice(a, k);
        oracle_compare(&w->farm[k], sl_param_store_params(&one->arena, v));
        for (uint32_t i = 0; i < a->h->spec.n_state; i++)
            ck_assert_mem_eq(sl_param_store_state(a, v, i) + own.first,
                             sl_param_store_state(&one->arena, v, i) + own.first,
                             own.n * sizeof(float));
    }
}

static void train_like_one(const struct sl_config *c, const struct sl_kernels *kernels, uint32_t n,
                           uint32_t n_trainers)
{
    struct farm one;
    struct world w;
    farm_init_small(&one, c, kernels);
    farm_start_sampler(&one);
    farm_start_trainer(&one);
    oracle_run_epochs(&one);
    world_init(&w, c, kernels, n);
    world_start(&w, n_trainers);
    world_run(&w);
    assert_same(&w, &one);
    world_fini(&w);
    farm_fini(&one);
}

// 7 batches an epoch, the last update is short: of 3 and 1 by 3, of 2 by 5, of 7 by 16.
static const uint32_t nodes[] = {2, 3, 5};

LOOP_TEST(any_number_of_nodes_gives_the_bits_of_one, 0, 3)
{
    static const uint32_t per_update[] = {5, 16};
    for (size_t i = 0; i < SL_COUNT_OF(per_update); i++) {
        struct sl_config c = farm_job(per_update[i]);
        train_like_one(&c, sl_kernels_ref(), nodes[_i], 1 + (uint32_t)i);
    }
}

LOOP_TEST(nodes_and_running_statistics, 0, 3)
{
    sl_kernels_set_threads(1);
    struct sl_config c = farm_job(5);
    c.model.norm = SL_NORM_BATCH;
    c.optimizer.kind = SL_OPTIMIZER_ADAMW;
    train_like_one(&c, sl_kernels_cpu(), nodes[_i], 1);
}

LOOP_TEST(nodes_and_sgd, 0, 3)
{
    struct sl_config c = farm_job(5);
    c.optimizer.kind = SL_OPTIMIZER_SGD;
    c.optimizer.momentum = 0.9;
    train_like_one(&c, sl_kernels_ref(), nodes[_i], 2);
}

LOOP_TEST(nodes_and_clipped_gradients, 0, 3)
{
    struct sl_config c = farm_job(5);
    c.optimizer.clip_norm = 1e-3;
    train_like_one(&c, sl_kernels_ref(), nodes[_i], 1);
}

RUN_TESTS(.timeout_s = 120)
