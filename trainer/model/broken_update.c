#include "trainer/model/broken_update.h"

#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/nodes.h"

// Tensors of which some element is not finite.
struct found {
    const char *first; // NULL: none
    uint32_t n, of;
};

typedef float element_of(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k);

// In the order of the parameter file; of what lies in that part of the flat vector.
static struct found find(const struct sl_broken_update *b, struct sl_nodes_part part,
                         element_of *value)
{
    struct found f = {0};
    for (uint32_t i = 0; i < b->n_tensors; i++) {
        const struct sl_tensor *t = &b->tensors[i];
        const uint64_t n = sl_tensor_count(t), to = part.first + part.n;
        const uint64_t end = SL_MIN(n, to - SL_MIN(to, t->offset));
        uint64_t k = part.first - SL_MIN(part.first, t->offset);
        while (k < end && isfinite(value(b, t, k)))
            k++;
        f.of += n > 0;
        if (k >= end)
            continue;
        f.first = f.first ? f.first : t->name;
        f.n++;
    }
    return f;
}

static float parameter(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    return sl_param_store_params(b->arena, b->update->version)[t->offset + k];
}

// One of the optimizer's arrays that is not finite there, if any is.
static float worst_state(const struct sl_broken_update *b, uint64_t version, uint64_t at)
{
    float worst = 0;
    for (uint32_t i = 0; i < b->arena->h->spec.n_state && isfinite(worst); i++)
        worst = sl_param_store_state(b->arena, version, i)[at];
    return worst;
}

static float state(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    return worst_state(b, b->update->version, t->offset + k);
}

// What the update's slots add up to at one place, as sync.c sums them.
static float sum_of_slots(const struct sl_broken_update *b, uint32_t n_slots, uint64_t at)
{
    float sum = 0;
    for (uint32_t i = 0; i < n_slots; i++)
        sum += sl_param_store_update_gradient(b->arena, b->update, i)[at];
    return sum;
}

static float gradient(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    const uint32_t n = sl_param_store_update_gradients(b->arena, b->update);
    return t->role == SL_TENSOR_LEARNED ? b->scale * sum_of_slots(b, n, t->offset + k) : 0;
}

static float statistic(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    return t->role == SL_TENSOR_RUNNING ? sum_of_slots(b, b->update->n_cells, t->offset + k) : 0;
}

static float next_parameter(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    return sl_param_store_params(b->arena, b->update->version + 1)[t->offset + k];
}

static float next_state(const struct sl_broken_update *b, const struct sl_tensor *t, uint64_t k)
{
    return worst_state(b, b->update->version + 1, t->offset + k);
}

// The sign of a NaN says nothing, and is not the same on all processors.
static const char *number_text(char buf[32], double value)
{
    snprintf(buf, 32, isnan(value) ? "nan" : "%.4g", value);
    return buf;
}

// "update 7 (epoch 2, 2 of 5) at a learning rate of 1000"
static void where_text(const struct sl_broken_update *b, char *out, size_t bytes)
{
    const struct sl_update *u = b->update;
    const struct sl_phase *phase = sl_ledger_phase(b->arena, u->seq);
    const uint64_t first = atomic_load(&phase->first_version);
    snprintf(out, bytes, "update %llu (epoch %u, %llu of %llu) at a learning rate of %g",
             (unsigned long long)u->version + 1, phase->spec.epoch + 1,
             (unsigned long long)(u->version - first + 1),
             (unsigned long long)(atomic_load(&phase->end_version) - first), b->lr);
}

// "the loss of batch 9 is nan; ", of the first batch whose loss is not finite; "" where all are.
static void loss_text(const struct sl_broken_update *b, char *out, size_t bytes)
{
    const struct sl_update *u = b->update;
    char number[32];
    *out = '\0';
    for (uint32_t i = 0; i < u->n_cells && !*out; i++) {
        const struct sl_batch_entry *e = sl_ledger_entry(b->arena, u->seq, u->first_cell + i);
        if (!isfinite(e->loss))
            snprintf(out, bytes, "the loss of batch %u is %s; ", u->first_cell + i + 1,
                     number_text(number, e->loss));
    }
}

int sl_broken_update_explain(const struct sl_broken_update *b)
{
    static const struct {
        const char *what;
        element_of *value;
        bool of_gradients; // of what this node has of them, else of the slice that it makes
    } places[] = {
        {"value before it", parameter, false},
        {"gradient", gradient, true},
        {"batches' statistic", statistic, true},
        {"optimizer's state before it", state, false},
        {"value after its step", next_parameter, false},
        {"optimizer's state after its step", next_state, false},
    };
    const uint32_t node = b->arena->h->spec.nodes.rank;
    const struct sl_nodes_part parts[] = {sl_nodes_slice(b->arena, node),
                                          sl_nodes_gradient_part(b->arena, node)};
    char where[160], loss[64];
    struct found f = {0};
    size_t i = 0;
    while (i < SL_COUNT_OF(places) &&
           !(f = find(b, parts[places[i].of_gradients], places[i].value)).first)
        i++;
    where_text(b, where, sizeof where);
    loss_text(b, loss, sizeof loss);
    if (!f.first)
        return sl_fail(SL_ENOTFINITE, "%s: %sits gradient is finite%s", where, loss,
                       b->of_rows ? " but for that of learned rows" : "");
    if (f.n == 1)
        return sl_fail(SL_ENOTFINITE, "%s: %sthe %s of %s is not finite", where, loss,
                       places[i].what, f.first);
    return sl_fail(SL_ENOTFINITE, "%s: %sthe %s of %s is not finite, first of %u among %u tensors",
                   where, loss, places[i].what, f.first, f.n, f.of);
}
