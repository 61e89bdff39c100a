/*
 * trainer_oracle.h - what a job on the farm must come to: the same job as a plain loop without
 * arena, threads or leases.
 */
#ifndef SL_TESTS_UNIT_TRAINER_ORACLE_H
#define SL_TESTS_UNIT_TRAINER_ORACLE_H

#include "common/arena/nodes.h"
#include "tests/unit/trainer_farm.h"

enum { ORACLE_EPOCHS = 3 };

struct oracle {
    float *p[2], *m[2], *v[2], *sum;
    float **slot;
    uint32_t n_members; // that sum their batches' gradients among themselves; 0 = nobody does
    float *member[2];   // one of them's sum, and that of all
};

// What is not learned: statistics take in those of one batch after the other, the rest stays.
static inline void oracle_carry(struct farm *f, struct oracle *t, uint64_t version, uint32_t n)
{
    int from = version & 1, to = !from;
    for (uint32_t i = 0; i < f->model.n_tensors; i++) {
        const struct sl_tensor *tensor = &f->model.tensor[i];
        if (tensor->role == SL_TENSOR_LEARNED)
            continue;
        for (uint64_t k = tensor->offset; k < tensor->offset + sl_tensor_count(tensor); k++) {
            float value = t->p[from][k];
            for (uint32_t b = 0; tensor->role == SL_TENSOR_RUNNING && b < n; b++)
                value += 0.1f * (t->slot[b][k] - value);
            t->p[to][k] = value;
            t->m[to][k] = t->v[to][k] = 0;
        }
    }
}

// The slots' sum: of each member's batches in their order, then of the members.
static inline void oracle_reduce(struct farm *f, struct oracle *t, uint32_t n, float scale)
{
    uint64_t n_params = f->model.n_params;
    const float *total = t->member[1];
    if (t->n_members == 0) {
        f->kernels->reduce((const float *const *)t->slot, n, n_params, scale, t->sum);
        return;
    }
    memset(t->member[1], 0, n_params * sizeof *t->member[1]);
    for (uint32_t r = 0; r < t->n_members; r++) {
        memset(t->member[0], 0, n_params * sizeof *t->member[0]);
        for (uint32_t b = r; b < n; b += t->n_members)
            for (uint64_t k = 0; k < n_params; k++)
                t->member[0][k] += t->slot[b][k];
        for (uint64_t k = 0; k < n_params; k++)
            t->member[1][k] += t->member[0][k];
    }
    f->kernels->reduce(&total, 1, n_params, scale, t->sum);
}

static inline void oracle_update(struct farm *f, struct oracle *t, uint64_t version, uint32_t n,
                                 double weight)
{
    const struct sl_config *c = &f->config;
    uint64_t n_params = f->model.n_params;
    oracle_reduce(f, t, n, (float)(1.0 / weight));
    int from = version & 1, to = !from;
    if (c->optimizer.kind == SL_OPTIMIZER_SGD) {
        const struct sl_sgd_step step = {.lr = (float)c->optimizer.lr,
                                         .momentum = (float)c->optimizer.momentum,
                                         .weight_decay = (float)c->optimizer.weight_decay};
        f->kernels->sgd(&step, n_params, t->sum, t->p[from], t->m[from], t->p[to], t->m[to], NULL);
        return;
    }
    const struct sl_adam_step step = {.lr = (float)c->optimizer.lr,
                                      .beta1 = (float)c->optimizer.beta1,
                                      .beta2 = (float)c->optimizer.beta2,
                                      .eps = (float)c->optimizer.eps,
                                      .weight_decay = (float)c->optimizer.weight_decay,
                                      .decoupled = c->optimizer.kind == SL_OPTIMIZER_ADAMW,
                                      .t = version + 1};
    f->kernels->adam(&step, n_params, t->sum, t->p[from], t->m[from], t->v[from], t->p[to],
                     t->m[to], t->v[to], NULL);
}

// Parameters after ORACLE_EPOCHS epochs, with so many members of a group; to be freed.
static inline float *oracle_train_grouped(struct farm *f, uint32_t n_members)
{
    uint64_t bytes = f->model.n_params * sizeof(float), version = 0;
    uint32_t per_update = f->config.updates.batches_per_update, batches = farm_batches(f);
    struct oracle t = {.n_members = n_members,
                       .member = {fixture_alloc(bytes), fixture_alloc(bytes)},
                       .sum = fixture_alloc(bytes),
                       .slot = fixture_alloc(per_update * sizeof *t.slot)};
    for (int i = 0; i < 2; i++) {
        t.p[i] = fixture_alloc(bytes);
        t.m[i] = fixture_alloc(bytes);
        t.v[i] = fixture_alloc(bytes);
    }
    for (uint32_t i = 0; i < per_update; i++)
        t.slot[i] = fixture_alloc(bytes);
    float *start = fixture_params(&f->model, 21);
    memcpy(t.p[0], start, bytes);
    free(start);
    uint64_t n_train = f->g->ds.split[SL_SPLIT_TRAIN].n;
    uint32_t *order = fixture_alloc(n_train * sizeof *order);
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        farm_order(f, epoch, order);
        double weight = 0;
        for (uint32_t b = 0; b < batches; b++) {
            uint64_t first = b * f->config.sampler.batch_size;
            uint32_t n = (uint32_t)SL_MIN(f->config.sampler.batch_size, n_train - first);
            struct sl_block *block = farm_block(f, order + first, n, epoch, b);
            float *x = fixture_input(&f->g->ds, block);
            struct sl_loss_result result;
            ck_assert_int_eq(sl_model_train(&f->model, t.p[version & 1], sl_block_here(block), x,
                                            t.slot[b % per_update], &result),
                             SL_OK);
            weight += result.weight;
            free(x);
            free(block);
            if (b % per_update + 1 == per_update || b + 1 == batches) {
                oracle_update(f, &t, version, b % per_update + 1, weight);
                oracle_carry(f, &t, version++, b % per_update + 1);
                weight = 0;
            }
        }
    }
    ck_assert_uint_eq(version, ORACLE_EPOCHS * sl_div_up(batches, per_update));
    float *out = t.p[version & 1];
    free(t.p[!(version & 1)]);
    for (int i = 0; i < 2; i++) {
        free(t.member[i]);
        free(t.m[i]);
        free(t.v[i]);
    }
    for (uint32_t i = 0; i < per_update; i++)
        free(t.slot[i]);
    free(t.slot);
    free(t.sum);
    free(order);
    return out;
}

static inline float *oracle_train(struct farm *f)
{
    return oracle_train_grouped(f, 0);
}

static inline void oracle_compare(struct farm *f, const float *wanted)
{
    ck_assert_uint_eq(sl_param_store_version(&f->arena), f->version);
    const float *found = sl_param_store_params(&f->arena, f->version);
    for (uint64_t i = 0; i < f->model.n_params; i++)
        ck_assert_msg(found[i] == wanted[i], "parameter %llu: found %.9g, wanted %.9g",
                      (unsigned long long)i, found[i], wanted[i]);
}

// Every batch of a complete phase was trained once and says so.
static inline void oracle_check_entries(struct farm *f, uint64_t seq)
{
    uint64_t counted = 0;
    for (uint32_t c = 0; c < farm_batches(f); c++) {
        const struct sl_batch_entry *e = sl_ledger_entry(&f->arena, seq, c);
        counted += e->counted;
        ck_assert_uint_gt(e->train_ns, 0);
        uint64_t row_bytes = f->g->ds.feat_dim * sizeof(float);
        ck_assert_uint_eq(e->hit_bytes, e->hits * row_bytes);
        ck_assert_uint_eq(e->hit_bytes + e->matched_bytes + e->miss_bytes, e->n_input * row_bytes);
        ck_assert_uint_ge(e->claimed_at_ns, 1);
        // Stages follow one another, and the update comes after the batch.
        ck_assert_uint_le(e->claimed_at_ns, e->extract_from_ns);
        ck_assert_uint_le(e->extract_from_ns + e->extract_ns, e->taken_at_ns);
        ck_assert_uint_le(e->taken_at_ns, e->train_from_ns);
        ck_assert_uint_eq(e->done_at_ns - e->train_from_ns, e->train_ns - e->sum_ns);
        const struct sl_update_entry *u = sl_ledger_update(&f->arena, seq, c);
        ck_assert(u->from_ns == 0 || (u->from_ns >= e->done_at_ns && u->applier >= 1));
        ck_assert(e->loss > 0);
        const uint32_t node = sl_nodes_owner(&f->arena, SL_PHASE_TRAIN, c);
        ck_assert(e->trainer >= 1);
        ck_assert(e->trainer <= f->n_workers || node != f->arena.h->spec.nodes.rank);
        ck_assert_uint_eq(sl_nodes_worker_node(&f->arena, e->trainer), node);
    }
    uint64_t labelled = 0;
    const struct sl_vertex_list *list = &f->g->ds.split[SL_SPLIT_TRAIN];
    for (uint64_t i = 0; i < list->n; i++)
        labelled += f->g->label[list->ids[i]] >= 0;
    ck_assert_uint_eq(counted, labelled);
}

// Trains all epochs and looks at every batch's entry.
static inline void oracle_run_epochs(struct farm *f)
{
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t seq = farm_open_train(f, epoch);
        farm_wait(f, seq);
        oracle_check_entries(f, seq);
    }
}

#endif
