// Batches of graphs with types: what a loader hands out of a block, and the features of its parts.
#include "tests/unit/suite.h"

#include <unistd.h>

#include "common/base/error.h"
#include "kernels/kernels.h"
#include "loader/loader.h"
#include "tests/unit/typed_blocks.h"
#include "trainer/feed/typed_block.h"

static struct tb_graph g;
static struct tb_block b;
static struct sl_block *block;

static void setup(void)
{
    srand48(11);
    block = tb_header(&b);
}

// What is beside the edges of some blocks.
static const uint32_t BESIDE[] = {0, SL_BLOCK_HAS_EDGE_IDS, SL_BLOCK_HAS_WEIGHTS};

static void make(uint32_t beside, uint32_t degree)
{
    const struct sl_block_shape shape = {.n_types = TB_TYPES};
    tb_graph_make(&g);
    tb_block_make(&b, &g, beside, degree);
    struct sl_block_shape wanted = shape;
    wanted.n_hops = block->n_hops;
    ck_assert_msg(sl_block_check_shape(block, TB_ROOM, wanted) == SL_OK, "%s", sl_error_message());
    ck_assert_msg(sl_typed_block_check(block, &g.ds.typed) == SL_OK, "%s", sl_error_message());
}

static void says(const char *part)
{
    ck_assert_msg(strstr(sl_error_message(), part) != NULL, "'%s' not in: %s", part,
                  sl_error_message());
}

// Whether n rows are those of the type's vertices, as they are stored or as f32.
static void check_rows(uint32_t t, uint32_t n, const void *rows, bool as_stored)
{
    const struct sl_vertex_type *type = &g.type[t];
    for (uint32_t i = 0; i < n * type->feat_dim; i++) {
        const uint32_t at = b.ids[t][i / type->feat_dim] * type->feat_dim + i % type->feat_dim;
        if (type->feat_dtype == SL_DTYPE_F32)
            ck_assert_float_eq(((const float *)rows)[i], g.rows[t].f32[at]);
        else if (as_stored)
            ck_assert_uint_eq(((const uint16_t *)rows)[i], g.rows[t].f16[at]);
        else
            ck_assert_float_eq(((const float *)rows)[i],
                               1 + (float)(g.rows[t].f16[at] - 0x3c00) / 1024);
    }
}

CASE(.name = "arrays", .setup = setup)

static void check_types(const struct sluice_arrays *out)
{
    const struct sl_block_type *part = sl_block_types(block);
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const struct sluice_type_arrays *type = &out->types[t];
        ck_assert_uint_eq(type->n_nodes, part[t].n[block->n_hops]);
        for (uint32_t i = 0; i < type->n_nodes; i++)
            ck_assert_int_eq(type->nodes[i], b.ids[t][i]);
        ck_assert_int_eq(type->features != NULL, g.type[t].feat_dim > 0);
        ck_assert_uint_eq((uintptr_t)type->features % 64, 0);
        if (type->features)
            check_rows(t, (uint32_t)type->n_nodes, type->features, true);
    }
}

static void check_relations(const struct sluice_arrays *out, uint32_t beside)
{
    const bool edge_ids = beside == SL_BLOCK_HAS_EDGE_IDS, weights = beside == SL_BLOCK_HAS_WEIGHTS;
    uint64_t n_edges = 0;
    for (uint32_t r = 0; r < TB_RELATIONS; r++) {
        const struct sluice_relation_arrays *found = &out->relations[r];
        const struct tb_edges *wanted = &b.of[r];
        ck_assert_uint_eq(found->n_edges, wanted->n);
        n_edges += wanted->n;
        for (uint32_t h = 0; h < block->n_hops; h++)
            ck_assert_uint_eq(found->n_after[h], wanted->n_after[h]);
        ck_assert_int_eq(found->edge_ids != NULL, edge_ids && wanted->n > 0);
        ck_assert_int_eq(found->weights != NULL, weights && wanted->n > 0);
        ck_assert_uint_eq((uintptr_t)found->edges % 64 + (uintptr_t)found->edge_ids % 64, 0);
        ck_assert_uint_eq((uintptr_t)found->weights % 64, 0);
        for (uint32_t e = 0; e < wanted->n; e++) {
            ck_assert_int_eq(found->edges[e], wanted->edge[e].source);
            ck_assert_int_eq(found->edges[wanted->n + e], wanted->edge[e].row);
            if (edge_ids)
                ck_assert_uint_eq((uint64_t)found->edge_ids[e], wanted->edge[e].id);
            if (weights)
                ck_assert_float_eq(found->weights[e], tb_weight(&wanted->edge[e]));
        }
    }
    ck_assert_uint_eq(out->n_edges, n_edges);
}

static struct sl_arrays *get(struct sl_arrays_pool *pool)
{
    struct sl_arrays *a;
    ck_assert_int_eq(sl_arrays_get(pool, true, &a), SL_OK);
    return a;
}

// Of several threads' parts, too, and in memory that another batch had.
TEST(they_are_those_of_the_block)
{
    struct sl_row_source rows = {.dataset = &g.ds};
    struct sl_arrays_pool *pool;
    const struct sl_arrays_spec spec = {.typed = &g.ds.typed};
    ck_assert_int_eq(sl_arrays_pool_open(&spec, &pool), SL_OK);
    struct sl_arrays *a = get(pool);
    sl_kernels_set_threads(3);
    for (uint32_t i = 0; i < 300; i++) {
        make(BESIDE[i % 3], i % 10 ? 5 : 700);
        ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
        ck_assert_int_eq(sl_buffer_grow(&a->features, sl_device_host(), SL_BUFFER_DEVICE,
                                        sl_rows_block_bytes(&g.ds, block), "features"),
                         SL_OK);
        ck_assert_int_eq(sl_rows_copy_block(&rows, sl_kernels_cpu(), block, a->features.p), SL_OK);
        const struct sluice_arrays out = sl_arrays_public(a, true, a->features.p);
        check_types(&out);
        check_relations(&out, BESIDE[i % 3]);
        ck_assert_ptr_null(out.edges);
        for (uint32_t s = 0; s < block->n_seeds; s++) {
            ck_assert_int_eq(out.places[s], b.ids[0][s]);
            ck_assert_int_eq(((int64_t *)out.labels)[s],
                             ((const int32_t *)sl_view_targets(sl_block_here(block)))[s]);
        }
    }
    const struct sluice_arrays out = sl_arrays_public(a, true, NULL);
    for (uint32_t t = 0; t < TB_TYPES; t++)
        ck_assert_ptr_null(out.types[t].features);
    sl_arrays_free(a);
    sl_arrays_pool_close(pool);
    sl_row_source_fini(&rows);
}

CASE(.name = "batches", .setup = setup)

TEST(their_runs_are_those_of_the_block)
{
    struct sluice_batch batch;
    struct sluice_run run;
    for (uint32_t i = 0; i < 50; i++) {
        make(BESIDE[i % 3], 5);
        sl_batch_describe(block, true, &batch);
        ck_assert_uint_eq(batch.n_runs, sl_block_typed(block)->n_runs);
        ck_assert_ptr_null(batch.hop[0].indptr);
        for (uint32_t t = 0; t < TB_TYPES; t++)
            for (uint32_t h = 0; h <= block->n_hops; h++)
                ck_assert_uint_eq(batch.parts[t].n_after[h], sl_block_types(block)[t].n[h]);
        for (uint32_t k = 0; k < batch.n_runs; k++) {
            ck_assert_int_eq(sluice_get_run(&batch, k, &run), SLUICE_OK);
            const struct tb_edges *wanted = &b.of[run.relation];
            ck_assert_uint_eq(run.n_edges, wanted->n_after[run.hop]);
            for (uint32_t row = 0; row < run.n_dst; row++)
                for (uint32_t e = run.indptr[row]; e < run.indptr[row + 1]; e++) {
                    ck_assert_uint_eq(wanted->edge[e].row, row);
                    ck_assert_uint_eq(run.indices[e], wanted->edge[e].source);
                    ck_assert_uint_eq(run.edge_ids ? run.edge_ids[e] : wanted->edge[e].id,
                                      (run.edge_ids ? g.relation[run.relation].first_edge : 0) +
                                          wanted->edge[e].id);
                    ck_assert_float_eq(run.weights ? run.weights[e] : tb_weight(&wanted->edge[e]),
                                       tb_weight(&wanted->edge[e]));
                }
        }
        ck_assert_int_eq(sluice_get_run(&batch, batch.n_runs, &run), SLUICE_EINVAL);
        says("wanted one below n_runs");
    }
}

TEST(a_block_of_another_graph_is_refused)
{
    make(SL_BLOCK_HAS_EDGE_IDS, 5);
    while (sl_block_typed(block)->n_runs == 0)
        make(SL_BLOCK_HAS_EDGE_IDS, 5);
    struct sl_block_run *run = (void *)((char *)block + sl_block_typed(block)->runs_offset);
    run->relation = TB_RELATIONS;
    ck_assert_int_eq(sl_typed_block_check(block, &g.ds.typed), SL_EPROTO);
    says("do not agree on the graph");
    const struct sl_typed plain = {0};
    ck_assert_int_eq(sl_typed_block_check(block, &plain), SL_OK);
}

CASE(.name = "features", .setup = setup)

// For trainers as f32, for loaders as they are stored; each type's from a multiple of 64 bytes on.
TEST(they_are_gathered_type_after_type)
{
    const struct sl_compute compute = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered result;
    struct sl_gather gather;
    sl_gather_init(&gather, &compute, &g.ds, SL_GATHER_FASTER);
    for (uint32_t i = 0; i < 200; i++) {
        make(0, 5);
        gather.half = i % 2;
        ck_assert_int_eq(sl_gather_block(&gather, NULL, block, NULL, &buffer, &result), SL_OK);
        uint64_t at = 0;
        for (uint32_t t = 0; t < TB_TYPES; t++) {
            const struct sl_vertex_type *type = &g.type[t];
            const uint32_t n = sl_typed_block_rows(block, t);
            check_rows(t, n, (const char *)buffer.x + at, gather.half);
            const uint32_t each =
                gather.half ? (uint32_t)sl_dtype_bytes(type->feat_dtype) : sizeof(float);
            at += sl_align_up((uint64_t)n * type->feat_dim * each, 64);
        }
        ck_assert_uint_le(at, buffer.features.bytes);
        ck_assert_uint_eq(result.miss_bytes, tb_feature_bytes(&g.ds.typed, block));
    }
    sl_batch_buffer_fini(&buffer);
    sl_gather_fini(&gather);
}

TEST(a_vertex_of_another_type_is_refused)
{
    struct sl_row_source rows = {.dataset = &g.ds};
    static char out[TB_ROOM];
    for (uint32_t as_stored = 0; as_stored < 2; as_stored++)
        for (uint32_t t = 0; t < TB_TYPES; t++) {
            do
                make(0, 5);
            while (sl_typed_block_rows(block, t) == 0 && t != 3);
            uint32_t *nodes = (void *)((char *)block + block->nodes_offset);
            const uint32_t at = sl_block_types(block)[t].first;
            if (t == 3 || t == 1) // none, and none with features
                continue;
            nodes[at] = (uint32_t)(g.type[t].first + g.type[t].n);
            ck_assert_int_eq(sl_rows_copy_typed(&rows, sl_kernels_cpu(), block, as_stored, out),
                             SL_ERANGE);
            says(g.type[t].name);
            nodes[at] = (uint32_t)g.type[t].first - 1; // of type 0 none at all
            ck_assert_int_eq(sl_rows_copy_typed(&rows, sl_kernels_cpu(), block, as_stored, out),
                             SL_ERANGE);
        }
    sl_row_source_fini(&rows);
}

// --- rows that are read from the drive -----------------------------------------------------------

// Writes each type's rows to a file of its own.
static void write_types(struct sl_row_file *file, char (*path)[64])
{
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const uint64_t each = sl_type_row_bytes(&g.type[t]), bytes = each * g.type[t].n;
        file[t] = (struct sl_row_file){.n_rows = g.type[t].n, .row_bytes = each};
        if (each == 0)
            continue;
        snprintf(path[t], sizeof path[t], "/tmp/sluice-types-XXXXXX");
        const int fd = mkstemp(path[t]);
        ck_assert_int_eq(write(fd, &g.rows[t], bytes), (ssize_t)bytes);
        file[t].n = 1;
        file[t].part[0] = (struct sl_row_part){path[t], fd, bytes};
    }
}

// Slots for two thirds of each type's rows, in which every other vertex is.
static void fill_cache(struct sl_row_cache *c)
{
    const struct sl_row_cache_use use = {.worker = 1};
    struct sl_row_cache_shape shape = {.n_rows = g.ds.n_nodes};
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const uint64_t each = sl_type_row_bytes(&g.type[t]), n = 1 + g.type[t].n * 2 / 3;
        if (each)
            shape.width[shape.n_widths++] = (struct sl_row_width){each, n};
        shape.n_slots += each ? n : 0;
    }
    sl_row_cache_view(calloc(1, sl_row_cache_bytes(&shape)), &shape, c);
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const struct sl_row_slots slots = sl_row_cache_slots(c, sl_type_row_bytes(&g.type[t]));
        for (uint32_t i = 0; i < g.type[t].n; i += 2) {
            const uint32_t v = (uint32_t)g.type[t].first + i;
            uint32_t slot;
            if (sl_row_cache_take(c, &slots, &use, v, false, &slot) != SL_ROW_TAKEN)
                continue;
            memcpy(slots.rows + (slot - slots.first) * slots.row_bytes,
                   (const char *)&g.rows[t] + i * slots.row_bytes, slots.row_bytes);
            sl_row_cache_there(c, slot);
        }
    }
}

// From the cache what it has, else from each type's file; as they are mapped.
TEST(they_are_the_same_from_the_drive)
{
    const struct sl_compute compute = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    const struct sl_row_options options = {.way = SL_ROWS_BY_THREADS, .cached = true, .depth = 4};
    for (uint32_t i = 0; i < 60; i++) {
        struct sl_row_file file[TB_TYPES];
        char path[TB_TYPES][64];
        struct sl_reading reading = {0};
        struct sl_batch_buffer buffer = {0};
        struct sl_gathered result;
        struct sl_gather gather;
        sl_gather_init(&gather, &compute, &g.ds, SL_GATHER_STAGED);
        make(0, 5);
        write_types(file, path);
        ck_assert_msg(sl_row_reader_open_files(file, TB_TYPES, &options, &reading.drive) == SL_OK,
                      "%s", sl_error_message());
        for (uint32_t t = 0; t < TB_TYPES; t++)
            if (file[t].n)
                unlink(path[t]);
        gather.half = i % 2;
        gather.source.reader = &reading;
        if (i % 4 < 2)
            fill_cache(&gather.source.shared);
        if (i % 8 < 4) // ranks are of what devices hold, which is nothing
            block->flags |= SL_BLOCK_HAS_RANKS;
        ck_assert_msg(sl_gather_block(&gather, NULL, block, NULL, &buffer, &result) == SL_OK, "%s",
                      sl_error_message());
        for (uint32_t t = 0; t < TB_TYPES; t++)
            check_rows(t, sl_typed_block_rows(block, t),
                       (const char *)buffer.x +
                           sl_typed_rows_at(block, &g.ds.typed, t,
                                            gather.half ? SL_TYPED_AS_STORED : SL_TYPED_F32),
                       gather.half);
        ck_assert_uint_eq(result.miss_bytes, tb_feature_bytes(&g.ds.typed, block));
        free(gather.source.shared.head);
        sl_batch_buffer_fini(&buffer);
        sl_gather_fini(&gather);
        sl_reading_close(&reading);
    }
}

RUN_TESTS(.timeout_s = 60)
