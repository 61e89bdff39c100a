#include "common/data/order_kind.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/proximity.h"
#include "common/data/shuffle.h"
#include "common/data/shuffling_error.h"

static bool fill_shuffled(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    const struct sl_order_inputs *f = &o->facts;
    return sl_shuffle_order(f->seed, epoch, f->train.ids, f->train.n, f->cancel, out);
}

static bool fill_listed(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    (void)epoch;
    for (uint64_t i = 0; i < o->facts.train.n; i++)
        out[i] = sl_vertex_at(&o->facts.train, i);
    return true;
}

// --- proximity (BGL 3.2.2) -----------------------------------------------------------------------

static bool fill_proximity(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    sl_proximity_order(o->walk, o->facts.train.n, o->n_sequences, o->facts.seed, epoch, out);
    return true;
}

// The shuffling error of some epochs: as many as have 64 batches, since few batches say little.
static int measure(const struct sl_epoch_order *o, struct sl_label_shares *shares,
                   const struct sl_order_kind *kind, uint32_t *out, double *error)
{
    enum { BATCHES = 64 };
    const uint64_t n = o->facts.train.n;
    const uint32_t n_epochs =
        (uint32_t)sl_div_up(BATCHES, SL_MAX(n / o->facts.batch_size, (uint64_t)1));
    *error = 0;
    for (uint32_t epoch = 0; epoch < n_epochs; epoch++) {
        if (o->facts.cancel && atomic_load_explicit(o->facts.cancel, memory_order_relaxed))
            return sl_fail(SL_EABORTED, "order of the epochs: stopped on request");
        if (!kind->fill(o, epoch, out))
            return sl_fail(SL_EABORTED, "order of the epochs: stopped on request");
        *error += sl_shuffling_error(shares, out, n, o->facts.batch_size) / n_epochs;
    }
    return SL_OK;
}

/*
 * The fewest sequences whose error is within the bound: doubled until it is, then halved between.
 * The error falls with their number but for its noise. At the batch size a batch has one vertex of
 * each, beyond it they would not take turns within a batch.
 */
static int find_sequences(struct sl_epoch_order *o, struct sl_label_shares *shares,
                          uint32_t *scratch)
{
    const uint64_t n = o->facts.train.n;
    const uint32_t most = (uint32_t)SL_MIN(n, (uint64_t)o->facts.batch_size);
    const struct sl_order_kind *kind = o->kind;
    const double bound = o->uniform_error + o->facts.excess;
    uint32_t low = 0, high = 1; // too few; enough, once the loop is done
    for (;; high = (uint32_t)SL_MIN((uint64_t)high * 2, (uint64_t)most)) {
        o->n_sequences = high;
        SL_TRY(measure(o, shares, kind, scratch, &o->error));
        if (o->error <= bound || high == most)
            break;
        low = high;
    }
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        double error;
        o->n_sequences = middle;
        SL_TRY(measure(o, shares, kind, scratch, &error));
        if (error <= bound) {
            high = middle;
            o->error = error;
        } else {
            low = middle;
        }
    }
    o->n_sequences = high;
    return SL_OK;
}

static int choose_sequences(struct sl_epoch_order *o, uint32_t *scratch)
{
    struct sl_label_shares shares;
    SL_TRY(sl_label_shares_open(&shares, o->facts.dataset, &o->facts.train));
    int rc = measure(o, &shares, &sl_order_kinds[SL_ORDER_SHUFFLED], scratch, &o->uniform_error);
    if (rc == SL_OK && o->facts.sequences == 0)
        rc = find_sequences(o, &shares, scratch);
    else if (rc == SL_OK)
        rc = measure(o, &shares, o->kind, scratch, &o->error);
    sl_label_shares_close(&shares);
    return rc;
}

static int prepare_proximity(struct sl_epoch_order *o)
{
    const struct sl_order_inputs *f = &o->facts;
    const uint64_t n = o->facts.train.n;
    uint32_t *scratch = malloc(n * sizeof *scratch);
    o->walk = malloc(n * sizeof *o->walk);
    o->n_sequences = (uint32_t)SL_MIN((uint64_t)f->sequences, n);
    int rc = SL_OK;
    if (!scratch || !o->walk)
        rc = sl_fail(SL_ENOMEM, "no memory for the order of %llu training vertices",
                     (unsigned long long)n);
    if (rc == SL_OK)
        rc = sl_proximity_walk(f->dataset, &f->train, f->seed, f->cancel, o->walk);
    if (rc == SL_OK)
        rc = choose_sequences(o, scratch);
    free(scratch);
    return rc;
}

// --- parts ---------------------------------------------------------------------------------------

static int prepare_parts(struct sl_epoch_order *o)
{
    const struct sl_order_inputs *f = &o->facts;
    return sl_part_order_open(&o->parts, f->dataset, &f->train, f->batch_size,
                              f->batches_per_update);
}

static bool fill_parts(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    return sl_part_order_fill(&o->parts, o->facts.seed, epoch, o->facts.cancel, out);
}

// --- the table -----------------------------------------------------------------------------------

#define ROW(name, word_, what, ...)      [SL_ORDER_##name] = {.word = word_, __VA_ARGS__},
#define WORD(name, word_, what, ...)     [SL_ORDER_##name] = word_,
#define SENTENCE(name, word_, what, ...) " " word_ ": " what "."

const struct sl_order_kind sl_order_kinds[] = {SL_ORDER_KINDS(ROW)};
const char *const sl_order_words[] = {SL_ORDER_KINDS(WORD) NULL};
const char sl_order_doc[] = "Order of the training vertices in an epoch." SL_ORDER_KINDS(SENTENCE);

int sl_epoch_order_open(struct sl_epoch_order *o, enum sl_order kind,
                        const struct sl_order_inputs *facts)
{
    const uint64_t began = sl_now_ns();
    *o = (struct sl_epoch_order){.kind = &sl_order_kinds[kind], .facts = *facts};
    int rc = o->kind->prepare ? o->kind->prepare(o) : SL_OK;
    if (rc < 0)
        sl_epoch_order_close(o);
    o->seconds = (double)(sl_now_ns() - began) * 1e-9;
    return rc;
}

// The epoch's share of the order that its pass has.
static bool fill_share(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    const uint64_t n = o->facts.train.n, items = sl_order_items(n, o->facts.epochs_per_pass);
    const uint64_t first = epoch % o->facts.epochs_per_pass * items;
    uint32_t *pass = malloc(n * sizeof *pass);
    if (!pass) {
        sl_fail(SL_ENOMEM, "no memory for the order of %llu training vertices",
                (unsigned long long)n);
        return false;
    }
    const bool filled = o->kind->fill(o, epoch / o->facts.epochs_per_pass, pass);
    for (uint64_t i = 0; filled && i < items; i++)
        out[i] = pass[(first + i) % n];
    free(pass);
    return filled;
}

bool sl_epoch_order_fill(const struct sl_epoch_order *o, uint32_t epoch, uint32_t *out)
{
    const bool shares = o->facts.epochs_per_pass > 1 && o->facts.train.n > 0;
    return shares ? fill_share(o, epoch, out) : o->kind->fill(o, epoch, out);
}

int sl_epoch_order_identity(enum sl_order kind, const struct sl_dataset *ds, uint64_t *out)
{
    *out = sl_dataset_identity(ds);
    return sl_order_kinds[kind].parts ? sl_part_order_identity(ds, out) : SL_OK;
}

void sl_epoch_order_close(struct sl_epoch_order *o)
{
    free(o->walk);
    sl_part_order_close(&o->parts);
    *o = (struct sl_epoch_order){0};
}
