#include "broker/scheduler/row_widths.h"

#include <math.h>

#include "common/base/bits.h"

enum { BLOCK_BYTES = 4096 }; // of the drive (SL_ROW_BLOCK_BYTES)

// --- what a mini-batch wants ---------------------------------------------------------------------

// Vertices of each type, on average.
struct batch {
    double known[SL_TYPES_MAX]; // all found so far, as often as they were
    double drawn[SL_TYPES_MAX]; // that the next hop draws for
};

// Different ones of n vertices, if `found` were found by chance.
static double different(double found, uint64_t n)
{
    return n ? -expm1(-found / (double)n) * (double)n : 0;
}

static double draws_of(const struct sl_config *c, const struct sl_typed *typed, uint32_t hop,
                       uint32_t r)
{
    const struct sl_relation *relation = &typed->relation[r];
    const int64_t *named = c->sampler.fanout_names.by_relation;
    const int64_t fanout =
        named ? named[(uint64_t)hop * typed->n_relations + r] : c->sampler.fanout[hop];
    const uint64_t rows = typed->type[relation->target].n;
    double degree = rows ? (double)sl_relation_list_edges(typed, relation) / (double)rows : 0;
    if (relation->n_steps > 0) // of those whose walks go somewhere
        degree = SL_MIN(degree, 1) * c->sampler.paths * c->sampler.length;
    return fanout < 0 ? degree : SL_MIN(degree, (double)fanout);
}

static void draw_hop(const struct sl_config *c, const struct sl_typed *typed, uint32_t hop,
                     struct batch *b)
{
    double before[SL_TYPES_MAX] = {0};
    for (uint32_t t = 0; t < typed->n_types; t++)
        before[t] = different(b->known[t], typed->type[t].n);
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        const struct sl_relation *relation = &typed->relation[r];
        b->known[relation->source] += b->drawn[relation->target] * draws_of(c, typed, hop, r);
    }
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const double now = different(b->known[t], typed->type[t].n);
        b->drawn[t] = c->sampler.expand == SL_EXPAND_NEW ? now - before[t] : now;
    }
}

static void find_wanted(const struct sl_config *c, const struct sl_typed *typed, struct batch *b)
{
    b->known[0] = b->drawn[0] = (double)SL_MIN(typed->type[0].n, c->sampler.batch_size);
    for (uint32_t hop = 0; hop < c->sampler.n_fanout; hop++)
        draw_hop(c, typed, hop, b);
}

static void add(struct sl_row_widths *to, uint64_t row_bytes, uint64_t n_rows, uint64_t n_here,
                double wanted)
{
    uint32_t w = 0;
    if (row_bytes == 0 || n_rows == 0)
        return;
    while (w < SL_MIN(to->n, (uint32_t)SL_ROW_WIDTHS_MAX) && to->of[w].row_bytes != row_bytes)
        w++;
    if (w == to->n || w == SL_ROW_WIDTHS_MAX)
        to->n++;
    if (w == SL_ROW_WIDTHS_MAX)
        return;
    to->of[w].row_bytes = row_bytes;
    to->of[w].n_rows += n_rows;
    to->of[w].n_elsewhere += n_rows - n_here;
    to->of[w].wanted += wanted;
}

void sl_row_widths_find(const struct sl_config *config, const struct sl_dataset *ds,
                        struct sl_row_widths *out)
{
    const struct sl_typed *typed = &ds->typed;
    struct batch b = {0};
    *out = (struct sl_row_widths){0};
    if (typed->n_types == 0)
        add(out, ds->feat_dim * sl_dtype_bytes(ds->feat_dtype), ds->n_nodes, sl_dataset_rows(ds),
            1);
    else
        find_wanted(config, typed, &b);
    for (uint32_t t = 0; t < typed->n_types; t++)
        add(out, sl_type_row_bytes(&typed->type[t]), typed->type[t].n,
            sl_dataset_type_rows(ds, &typed->type[t]), different(b.known[t], typed->type[t].n));
}

// --- what each gets ------------------------------------------------------------------------------

double sl_row_blocks(uint64_t row_bytes)
{
    return 1 + ((double)row_bytes - 1) / BLOCK_BYTES;
}

// Of a row in the cache.
static uint64_t each_of(const struct sl_row_need *need)
{
    return need->row_bytes + sizeof(uint64_t);
}

uint64_t sl_row_widths_bytes(const struct sl_row_widths *widths, uint64_t rows)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < SL_MIN(widths->n, (uint32_t)SL_ROW_WIDTHS_MAX); w++)
        bytes += SL_MIN(widths->of[w].n_rows, rows) * each_of(&widths->of[w]);
    return bytes;
}

// The integral of exp(-t) / t from z on, for z > 0.
static double exponential_integral(double z)
{
    enum { TERMS = 60 };
    double sum = -0.57721566490153286 - log(z), term = 1, fraction = 0;
    for (int k = 1; z < 1 && k <= TERMS; k++) {
        term *= -z / k;
        sum -= term / k;
    }
    for (int k = TERMS; z >= 1 && k > 0; k--)
        fraction = k / (1 + k / (z + fraction));
    return z < 1 ? sum : exp(-z) / (z + fraction);
}

// The z of row_widths.h, of a share of the rows that a mini-batch wants.
static double find_z(double share)
{
    enum { STEPS = 100 };
    double low = 1e-15, high = 40; // which is all of them
    for (int i = 0; i < STEPS; i++) {
        const double z = sqrt(low * high);
        *(-expm1(-z) + z * exponential_integral(z) <= share ? &low : &high) = z;
    }
    return low;
}

// A width that competes: how fast its rows get colder.
struct rival {
    const struct sl_row_need *need;
    double a, z; // 0: nobody wants its rows
};

static struct rival rival_of(const struct sl_row_need *need)
{
    const double z = need->wanted > 0 ? find_z(need->wanted / (double)need->n_rows) : 0;
    return (struct rival){need, z * (double)need->n_rows, z};
}

// Bytes for each block that is saved with a row that every mini-batch wants.
static double least_price(const struct rival *r)
{
    return (double)each_of(r->need) / sl_row_blocks(r->need->row_bytes);
}

// Rows of a width whose last one costs no more than `price` bytes for each block that it saves.
static uint64_t rows_at(const struct rival *r, double price, uint64_t least)
{
    const uint64_t n = r->need->n_rows;
    const double chance = least_price(r) / price;
    const double rows = r->a > 0 && chance < 1 ? r->a / -log1p(-chance) : 0;
    const uint64_t fit = rows < (double)n ? (uint64_t)rows : n;
    return SL_MIN(SL_MAX(fit, least), n);
}

static uint64_t bytes_at(const struct rival *rivals, uint32_t n, double price, uint64_t least)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < n; w++)
        bytes += rows_at(&rivals[w], price, least) * each_of(rivals[w].need);
    return bytes;
}

// The highest price that `bytes` are enough for.
static double find_price(const struct rival *rivals, uint32_t n, uint64_t bytes, uint64_t least)
{
    enum { STEPS = 64 };
    double low = 1, high = 1; // which all rows are there for
    for (uint32_t w = 0; w < n; w++)
        if (rivals[w].z > 0)
            high = SL_MAX(high, least_price(&rivals[w]) / -expm1(-rivals[w].z) * (1 + 1e-9));
    if (bytes_at(rivals, n, high, least) <= bytes)
        return high;
    for (int i = 0; i < STEPS; i++) {
        const double middle = sqrt(low * high);
        *(bytes_at(rivals, n, middle, least) <= bytes ? &low : &high) = middle;
    }
    return low;
}

void sl_row_widths_divide(const struct sl_row_widths *widths, uint64_t bytes, uint64_t least,
                          struct sl_row_cache_shape *out)
{
    const uint32_t n = SL_MIN(widths->n, (uint32_t)SL_ROW_WIDTHS_MAX);
    struct rival rivals[SL_ROW_WIDTHS_MAX] = {0};
    for (uint32_t w = 0; w < n; w++)
        rivals[w] = rival_of(&widths->of[w]);
    const double price = find_price(rivals, n, bytes, least);
    uint64_t left = bytes - bytes_at(rivals, n, price, least);
    out->n_widths = n;
    for (uint32_t w = 0; w < n; w++) {
        const struct sl_row_need *need = &widths->of[w];
        uint64_t slots = rows_at(&rivals[w], price, least);
        if (rivals[w].z > 0) { // what is left of whole rows
            const uint64_t more = SL_MIN(left / each_of(need), need->n_rows - slots);
            slots += more;
            left -= more * each_of(need);
        }
        out->width[w] = (struct sl_row_width){need->row_bytes, slots};
        out->n_slots += slots;
    }
}
