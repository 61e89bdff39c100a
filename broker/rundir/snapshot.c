#include "broker/rundir/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/nodes.h"
#include "common/arena/param_store.h"

int sl_snapshot_init(struct sl_snapshot *s, const struct sl_phases *p)
{
    const struct sl_arena_spec *spec = &p->arena->h->spec;
    memset(s, 0, sizeof *s);
    s->n_batches =
        (uint32_t)sl_phases_batches(p->setup.plan.config, p->setup.plan.split[SL_SPLIT_TRAIN].n);
    s->n_params = spec->n_params;
    s->n_state = spec->n_state;
    if (s->n_state > SL_SNAPSHOT_STATES)
        return sl_fail(SL_EINVAL, "checkpoints: %u optimizer arrays, at most %d are known",
                       s->n_state, SL_SNAPSHOT_STATES);
    s->records = calloc(2 * (size_t)s->n_batches, sizeof *s->records);
    s->params = malloc(s->n_params * sizeof *s->params);
    s->best_params = malloc(s->n_params * sizeof *s->best_params);
    s->pinned_params = malloc(s->n_params * sizeof *s->pinned_params);
    bool ok = s->records && s->params && s->best_params && s->pinned_params;
    for (uint32_t i = 0; i < s->n_state; i++)
        ok &= (s->state[i] = malloc(s->n_params * sizeof *s->state[i])) != NULL;
    if (ok)
        return SL_OK;
    sl_snapshot_fini(s);
    return sl_fail(SL_ENOMEM, "no memory for checkpoints of %llu parameters",
                   (unsigned long long)spec->n_params);
}

void sl_snapshot_fini(struct sl_snapshot *s)
{
    free(s->records);
    free(s->params);
    free(s->best_params);
    free(s->pinned_params);
    sl_row_copy_fini(&s->copy);
    for (uint32_t i = 0; i < SL_SNAPSHOT_STATES; i++)
        free(s->state[i]);
    memset(s, 0, sizeof *s);
}

static const struct sl_open_phase *find_training(const struct sl_phases *p, uint32_t epoch)
{
    for (uint32_t i = 0; i < p->n_open; i++) {
        const struct sl_open_phase *o = &p->open[(p->first_open + i) % SL_ARENA_PHASES];
        if (o->step.purpose == SL_PURPOSE_TRAIN && o->step.epoch == epoch)
            return o;
    }
    return NULL;
}

// Adds the batches of an epoch, which has not been read, that are in version `version`: cells of
// records[]. False when it cannot be told now.
static bool find_in_phase(struct sl_snapshot *s, const struct sl_phases *p, uint32_t epoch,
                          const struct sl_open_phase **phase)
{
    uint64_t updates =
        sl_phases_updates(p->setup.plan.config, p->setup.plan.split[SL_SPLIT_TRAIN].n);
    uint64_t first = epoch * updates;
    uint32_t before = s->n_records;
    // Ahead of what has been read, or of what there is.
    if (s->version < first || s->version > first + updates || epoch >= p->setup.plan.config->epochs)
        return false;
    const struct sl_open_phase *o = *phase = find_training(p, epoch);
    for (uint32_t i = 0; o && i < s->n_batches; i++)
        if (sl_param_store_is_applied(p->arena, o->seq, i))
            s->records[s->n_records++].cell = i;
    uint64_t per_update =
        p->arena->h->spec.async ? 1 : p->setup.plan.config->updates.batches_per_update;
    return s->n_records - before ==
           SL_MIN((s->version - first) * per_update, (uint64_t)s->n_batches);
}

// Which batches are in version `version`: n_records and, from the first one of *phase on,
// records[].cell. Frozen. False when it cannot be told now.
static bool find_applied(struct sl_snapshot *s, const struct sl_phases *p,
                         const struct sl_open_phase **phase)
{
    uint64_t updates =
        sl_phases_updates(p->setup.plan.config, p->setup.plan.split[SL_SPLIT_TRAIN].n);
    uint64_t first = s->epoch * updates;
    s->n_records = 0;
    *phase = NULL;
    if (s->version == first)
        return true;
    if (p->trained <= s->epoch)
        return find_in_phase(s, p, s->epoch, phase);
    // It has been read, and is being evaluated, perhaps beside the next one.
    if (s->version < first + updates)
        return false;
    s->n_records = s->n_batches;
    return s->version == first + updates || find_in_phase(s, p, s->epoch + 1, phase);
}

// What is to be known of each batch. Of one that is applied nothing changes any more; phases are
// reused by this thread alone.
static void copy_records(struct sl_snapshot *s, const struct sl_phases *p,
                         const struct sl_open_phase *phase)
{
    uint32_t i = 0;
    if (p->trained > s->epoch && s->n_records > 0) {
        memcpy(s->records, p->records, s->n_batches * sizeof *s->records);
        i = s->n_batches;
    }
    for (; phase && i < s->n_records; i++)
        sl_ledger_record(p->arena, phase->seq, s->records[i].cell, &s->records[i]);
}

static void copy_board(struct sl_snapshot *s, const struct sl_arena *a)
{
    size_t bytes = s->n_params * sizeof(float);
    memcpy(s->params, sl_param_store_params(a, s->version), bytes);
    for (uint32_t i = 0; i < s->n_state; i++)
        memcpy(s->state[i], sl_param_store_state(a, s->version, i), bytes);
}

// What only the broker writes.
static void copy_best(struct sl_snapshot *s, const struct sl_phases *p)
{
    bool same = s->best.has && s->best.epoch == p->best.epoch;
    s->best = p->best;
    s->new_best = s->best.has && !same;
    if (s->new_best)
        memcpy(s->best_params, sl_param_store_best(p->arena), s->n_params * sizeof(float));
}

int sl_snapshot_take(struct sl_snapshot *s, struct sl_phases *p, bool alone)
{
    const struct sl_open_phase *phase;
    if (p->epoch_waits || p->keeping.busy)
        return SL_EAGAIN; // between two positions: judged, and not told yet
    if (sl_param_store_freeze(p->arena, alone) < 0)
        return SL_EAGAIN; // a trainer applies an update
    s->version = sl_param_store_version(p->arena);
    s->epoch = p->told;
    const struct sl_row_table *rows = p->setup.rows;
    bool known = (!rows || sl_row_table_is_at(rows, s->version)) && find_applied(s, p, &phase);
    bool whole = sl_nodes_state_is_whole(p->arena);
    if (known && whole)
        copy_board(s, p->arena);
    s->frozen = known && whole && rows && !alone;
    if (!s->frozen)
        sl_param_store_thaw(p->arena);
    if (known && !whole)
        sl_nodes_ask_state(p->arena);
    if (!known || !whole)
        return SL_EAGAIN;
    sl_nodes_end_ask(p->arena);
    copy_records(s, p, phase);
    copy_best(s, p);
    if (sl_snapshot_beside(s))
        memcpy(s->pinned_params, sl_param_store_pinned(p->arena), s->n_params * sizeof(float));
    s->has_digest = p->digest_state != NULL;
    memcpy(s->digest, p->trained > p->told ? p->digest_before : p->digest, sizeof s->digest);
    if (s->frozen)
        s->rows = sl_row_copy_view(&s->copy);
    else if (rows)
        s->rows = sl_row_view_of(rows);
    return SL_OK;
}

void sl_snapshot_copy_rows(struct sl_snapshot *s, const struct sl_phases *p)
{
    sl_row_copy_take(&s->copy, p->setup.rows, s->new_best);
}

void sl_snapshot_thaw(struct sl_snapshot *s, struct sl_phases *p)
{
    s->frozen = false;
    sl_param_store_thaw(p->arena);
}

void sl_position_of_training(uint32_t *epoch, uint32_t *n_records, uint32_t n_batches)
{
    if (*n_records <= n_batches)
        return;
    ++*epoch;
    *n_records -= n_batches;
}

char *sl_position_text(uint64_t version, uint32_t epoch, uint32_t n_records, uint32_t n_batches,
                       char *buf, size_t bytes)
{
    unsigned long long update = version;
    sl_position_of_training(&epoch, &n_records, n_batches);
    if (n_records)
        snprintf(buf, bytes, "update %llu, epoch %u, batch %u of %u", update, epoch + 1, n_records,
                 n_batches);
    else if (epoch)
        snprintf(buf, bytes, "update %llu, after epoch %u", update, epoch);
    else
        snprintf(buf, bytes, "update %llu, the beginning", update);
    return buf;
}
