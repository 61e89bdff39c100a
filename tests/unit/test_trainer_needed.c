// An evaluation computes the rows that its vertices need, and leaves the bits that all rows leave.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"
#include "trainer/infer/evaluate.h"
#include "trainer/model/needed_rows.h"

enum { LAYERS = 3, CELL_ROWS = 40, CELLS = FARM_NODES / CELL_ROWS + 1 };

// ---- which rows ---------------------------------------------------------------------------------

// needed[v] of the layer below: those of this layer and whom they read.
static void naive_below(const struct sl_dataset *ds, const bool *above, bool *needed)
{
    memcpy(needed, above, ds->n_nodes * sizeof *needed);
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        for (uint64_t e = ds->indptr[v]; above[v] && e < ds->indptr[v + 1]; e++)
            needed[((const uint32_t *)ds->indices)[e]] = true;
}

static uint64_t count_of(const bool *set, uint64_t n)
{
    uint64_t count = 0;
    for (uint64_t v = 0; v < n; v++)
        count += set[v];
    return count;
}

static bool is_marked(const struct sl_marks *m, uint64_t v)
{
    return m->bits[v / 64] >> (v % 64) & 1;
}

// Each layer's set, or all where it is nearly all; and every stretch of it as a list.
static void check_sets(const struct sl_dataset *ds, uint32_t splits)
{
    struct sl_needed_rows needed;
    bool *set = fixture_alloc(ds->n_nodes), *below = fixture_alloc(ds->n_nodes), all = false;
    uint32_t *ids = fixture_alloc(ds->n_nodes * sizeof *ids);
    ck_assert_int_eq(sl_needed_rows_find(&needed, ds, splits, LAYERS), SL_OK);
    ck_assert_uint_eq(needed.sets, splits);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        for (uint64_t i = 0; (splits >> s & 1) && i < ds->split[s].n; i++)
            set[ds->split[s].ids[i]] = true;
    for (uint32_t l = LAYERS - 1; l-- > 0;) {
        const struct sl_marks *m = &needed.layer[l];
        naive_below(ds, set, below);
        memcpy(set, below, ds->n_nodes);
        all |= count_of(set, ds->n_nodes) > ds->n_nodes * 7 / 8;
        ck_assert_int_eq(m->bits == NULL, all);
        if (all)
            continue;
        ck_assert_uint_eq(m->n, count_of(set, ds->n_nodes));
        for (uint64_t first = 0; first < ds->n_nodes; first += 17) {
            uint64_t n = 1 + first % 150;
            uint32_t listed = sl_marks_list(m, first, n, ids), k = 0;
            for (uint64_t v = first; v < SL_MIN(first + n, ds->n_nodes); v++) {
                ck_assert_int_eq(is_marked(m, v), set[v]);
                if (set[v])
                    ck_assert_uint_eq(ids[k++], v);
            }
            ck_assert_uint_eq(listed, k);
        }
    }
    sl_needed_rows_free(&needed);
    free(set);
    free(below);
    free(ids);
}

TEST(sets_are_the_in_neighbours_of_the_sets_above)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 128, 500, 5000};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        struct fixture_graph g = fixture_graph(sizes[i], 1, 2, 5 + i);
        for (uint64_t few = 0; few <= 9; few += 3) {
            for (int s = SL_SPLIT_VAL; s <= SL_SPLIT_TEST; s++)
                g.ds.split[s].n = SL_MIN(g.ds.split[s].n, few);
            for (uint32_t splits = 0; splits < 8; splits += 2)
                check_sets(&g.ds, splits);
        }
        fixture_graph_free(&g);
    }
}

// ---- evaluations --------------------------------------------------------------------------------

struct outcome {
    struct sl_loss_result cell[LAYERS][CELLS];
    uint32_t predictions[FARM_NODES];
    float *acts[2];
    uint64_t edges[LAYERS];
};

static void outcome_free(struct outcome *o)
{
    free(o->acts[0]);
    free(o->acts[1]);
}

static uint64_t act_bytes(const struct farm *f)
{
    return f->g->ds.n_nodes * f->arena.h->spec.act_width * sizeof(float);
}

// One layer's phase, its cells in turn; rows that nobody wrote before are no numbers.
static void run_phase(struct farm *f, const struct sl_phase_spec *spec, struct outcome *out)
{
    struct sl_lease lease;
    uint64_t edges;
    uint64_t seq = farm_open(f, spec);
    if (!spec->last_layer)
        memset(sl_arena_acts(&f->arena, spec->layer), 0xff, act_bytes(f));
    for (uint32_t c = 0; c < sl_div_up(spec->n_items, spec->batch_size); c++) {
        ck_assert_int_eq(sl_ledger_claim_train(&f->arena, 1, 0, &lease), SL_OK);
        ck_assert_int_eq(sl_evaluate_infer(&f->model,
                                           sl_evaluate_params(&f->arena, &lease.phase->spec),
                                           &f->g->ds, &f->arena, &lease,
                                           &out->cell[spec->layer][lease.cell], &edges),
                         SL_OK);
        out->edges[spec->layer] += edges;
        ck_assert_int_eq(sl_ledger_complete(&f->arena, &lease), SL_OK);
    }
    ck_assert(sl_ledger_phase_complete(&f->arena, seq));
    if (spec->last_layer)
        return;
    out->acts[spec->layer] = fixture_alloc(act_bytes(f));
    memcpy(out->acts[spec->layer], sl_arena_acts(&f->arena, spec->layer), act_bytes(f));
}

static struct outcome evaluate(struct farm *f, enum sl_split split, uint32_t wanted)
{
    struct outcome out = {0};
    for (uint32_t l = 0; l < LAYERS; l++) {
        const bool last = l + 1 == LAYERS;
        const struct sl_phase_spec spec = {
            .kind = SL_PHASE_INFER,
            .set = !last                   ? SL_SET_ALL
                   : split == SL_SPLIT_VAL ? SL_SET_VAL
                                           : SL_SET_TEST,
            .layer = l,
            .last_layer = last,
            .wanted_splits = last ? 0 : wanted,
            .batch_size = CELL_ROWS,
            .n_items = last ? f->g->ds.split[split].n : f->g->ds.n_nodes,
        };
        run_phase(f, &spec, &out);
    }
    memcpy(out.predictions, sl_arena_predictions(&f->arena),
           f->g->ds.split[split].n * sizeof *out.predictions);
    return out;
}

// What counts is the same to the bit; of the rest nothing was computed.
static void check_against_all(struct farm *f, const struct outcome *all, const struct outcome *some)
{
    const struct sl_dataset *ds = &f->g->ds;
    const struct sl_needed_rows *needed = &f->model.needed[0];
    ck_assert_mem_eq(all->cell, some->cell, sizeof all->cell);
    ck_assert_mem_eq(all->predictions, some->predictions, sizeof all->predictions);
    ck_assert_uint_eq(all->edges[LAYERS - 1], some->edges[LAYERS - 1]);
    uint64_t left_out = 0;
    for (uint32_t l = 0; l + 1 < LAYERS; l++) {
        // GraphSAGE's last layer reads two matrices of products, one behind the other.
        const struct sl_layer_input kept = sl_layer_input(&f->model.layer[l + 1]);
        ck_assert_uint_le(kept.n * kept.width, f->arena.h->spec.act_width);
        for (uint64_t r = 0; r < kept.n * ds->n_nodes; r++) {
            const uint64_t v = r % ds->n_nodes;
            const bool has = !needed->layer[l].bits || is_marked(&needed->layer[l], v);
            const float *row = some->acts[l] + r * kept.width;
            left_out += !has;
            if (has)
                ck_assert_mem_eq(row, all->acts[l] + r * kept.width, kept.width * sizeof *row);
            for (uint32_t k = 0; !has && k < kept.width; k++)
                ck_assert(isnan(row[k]));
        }
        ck_assert_uint_le(some->edges[l], all->edges[l]);
    }
    ck_assert_uint_gt(left_out, 0);
}

LOOP_TEST(needed_rows_alone_leave_the_same_bits, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    const uint32_t val = 1u << SL_SPLIT_VAL, test = 1u << SL_SPLIT_TEST;
    for (int kernels = 0; kernels < 2; kernels++)
        for (int jumping = SL_JUMPING_NONE; jumping <= SL_JUMPING_MAX; jumping++) {
            struct sl_config c = farm_job(1);
            c.model.kind = (enum sl_model_kind)_i;
            c.model.layers = LAYERS;
            c.model.hidden = 8; // two heads divide it
            c.model.jumping = (enum sl_jumping_kind)jumping;
            struct farm f;
            farm_init_small(&f, &c, kernels ? sl_kernels_cpu() : sl_kernels_ref());
            f.g->ds.split[SL_SPLIT_VAL].n = 4;
            f.g->ds.split[SL_SPLIT_TEST].n = 3;
            struct outcome first = evaluate(&f, SL_SPLIT_VAL, val);
            sl_source_row_cache_free(&f.model.kept_sums); // the sums of all rows are their own
            struct outcome all = evaluate(&f, SL_SPLIT_VAL, 0);
            struct outcome some = evaluate(&f, SL_SPLIT_VAL, val);
            check_against_all(&f, &all, &first);
            check_against_all(&f, &all, &some);
            // What the validation was made of is no use for the test, and both may be needed.
            struct outcome tested = evaluate(&f, SL_SPLIT_TEST, 0);
            struct outcome alone = evaluate(&f, SL_SPLIT_TEST, test);
            struct outcome both = evaluate(&f, SL_SPLIT_TEST, val | test);
            ck_assert_mem_eq(tested.cell, alone.cell, sizeof tested.cell);
            ck_assert_mem_eq(tested.cell, both.cell, sizeof tested.cell);
            ck_assert_mem_eq(tested.predictions, alone.predictions, sizeof tested.predictions);
            ck_assert_mem_eq(tested.predictions, both.predictions, sizeof tested.predictions);
            outcome_free(&first);
            outcome_free(&all);
            outcome_free(&some);
            outcome_free(&tested);
            outcome_free(&alone);
            outcome_free(&both);
            farm_fini(&f);
        }
}

RUN_TESTS(.timeout_s = 60)
