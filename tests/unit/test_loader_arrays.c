// A batch's arrays of 64 bits: what they say of a block, and whose their memory is.
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/kernels.h"
#include "loader/arrays.h"

enum { ROOM = 1 << 21, MAX_NODES = 60, MAX_EDGES = 70000, TARGETS = 3 };

static struct sl_arrays_pool *pool;
static uint64_t memory[ROOM / sizeof(uint64_t)];
static struct sl_block *block = (struct sl_block *)(void *)memory;

static uint32_t below(uint32_t n)
{
    return (uint32_t)lrand48() % n;
}

static void *array(size_t *used, uint64_t *offset, size_t bytes)
{
    *offset = *used;
    *used = sl_align_up(*used + bytes, 64);
    ck_assert_uint_le(*used, ROOM);
    return (char *)memory + *offset;
}

// A block of `hops` hops whose edges are those of the last one, and what it says of them, edge by
// edge: source, row, number.
struct edge {
    uint32_t source, row;
    uint64_t id;
};
static struct edge edges[MAX_EDGES];
static uint32_t n_edges;
static uint32_t tree_of[MAX_NODES]; // of vertices, of a disjoint block

static void make_with(uint32_t hops, uint32_t flags, uint32_t n_targets, uint32_t degree)
{
    size_t used = sl_align_up(sizeof *block, 64);
    memset(memory, 0x5a, ROOM / 16);
    *block = (struct sl_block){.magic = SL_BLOCK_MAGIC,
                               .flags = flags,
                               .bytes = ROOM,
                               .n_hops = hops,
                               .n_targets = n_targets};
    for (uint32_t h = 0, n = 0; h <= hops; h++)
        block->n_nodes[h] = n += 1 + below(MAX_NODES / 9);
    block->n_seeds = block->n_nodes[0];
    block->n_input = block->n_nodes[hops];
    uint32_t *nodes = array(&used, &block->nodes_offset, sizeof *nodes * block->n_input);
    for (uint32_t i = 0; i < block->n_input; i++)
        nodes[i] = below(2) ? UINT32_MAX - i : (uint32_t)lrand48();
    void *targets =
        array(&used, &block->label_offset, sizeof(float) * block->n_seeds * (n_targets + 1));
    for (uint32_t i = 0; i < block->n_seeds * (n_targets + 1); i++) {
        ((int32_t *)targets)[i] = (int32_t)below(5) - 1;
        if (n_targets)
            ((float *)targets)[i] = (float)i / 7;
    }
    struct sl_block_hop *hop = &block->hop[hops - 1];
    hop->n_dst = block->n_nodes[hops - 1];
    uint32_t *indptr = array(&used, &hop->indptr_offset, sizeof *indptr * (hop->n_dst + 1));
    n_edges = indptr[0] = 0;
    for (uint32_t row = 0; row < hop->n_dst; row++) {
        for (uint32_t k = below(3) ? below(degree) : 0; k; k--)
            edges[n_edges++] = (struct edge){below(block->n_input), row,
                                             (uint64_t)lrand48() << 30 | (uint64_t)lrand48()};
        indptr[row + 1] = n_edges;
    }
    hop->n_edges = n_edges;
    uint32_t *indices = array(&used, &hop->indices_offset, sizeof *indices * n_edges);
    uint64_t *beside = array(&used, &hop->beside_offset, sizeof *beside * n_edges);
    for (uint32_t i = 0; i < n_edges; i++) {
        indices[i] = edges[i].source;
        if (flags & SL_BLOCK_HAS_EDGE_IDS)
            beside[i] = edges[i].id;
        else
            ((float *)(void *)beside)[i] = (float)(edges[i].id % 1000);
    }
}

static void make(uint32_t hops, uint32_t flags, uint32_t n_targets)
{
    make_with(hops, flags, n_targets, 4);
}

// Makes the block's edges those of trees: each vertex behind the seeds is a source of one row
// before it first, and then of later rows of the same tree.
static void make_disjoint(void)
{
    make(2, SL_BLOCK_DISJOINT, 0);
    struct sl_block_hop *hop = &block->hop[1];
    uint32_t *indptr = (uint32_t *)(void *)((char *)block + hop->indptr_offset);
    uint32_t found_by[MAX_NODES];
    n_edges = 0;
    for (uint32_t i = 0; i < block->n_input; i++) {
        found_by[i] = i < block->n_seeds ? UINT32_MAX : below(SL_MIN(i, hop->n_dst));
        tree_of[i] = i < block->n_seeds ? i : tree_of[found_by[i]];
    }
    for (uint32_t row = 0; row < hop->n_dst; row++) {
        for (uint32_t i = 0; i < block->n_input; i++)
            if (found_by[i] == row || (tree_of[i] == tree_of[row] && i < row))
                edges[n_edges++] = (struct edge){.source = i, .row = row};
        indptr[row + 1] = n_edges;
    }
    hop->n_edges = n_edges;
    hop->indices_offset = ROOM / 2;
    uint32_t *indices = (uint32_t *)(void *)((char *)block + hop->indices_offset);
    for (uint32_t e = 0; e < n_edges; e++)
        indices[e] = edges[e].source;
}

static void check_filled(const struct sl_arrays *a)
{
    const struct sl_block_view v = sl_block_here(block);
    ck_assert_uint_eq(a->n_edges, n_edges);
    ck_assert_uint_eq((uintptr_t)a->nodes % 64 + (uintptr_t)a->edges % 64, 0);
    for (uint32_t i = 0; i < block->n_input; i++)
        ck_assert_int_eq(a->nodes[i], sl_view_nodes(v)[i]);
    for (uint32_t i = 0; i < n_edges; i++) {
        ck_assert_int_eq(a->edges[i], edges[i].source);
        ck_assert_int_eq(a->edges[n_edges + i], edges[i].row);
        if (a->edge_ids)
            ck_assert_uint_eq((uint64_t)a->edge_ids[i], edges[i].id);
        if (a->weights)
            ck_assert_float_eq(a->weights[i], (float)(edges[i].id % 1000));
    }
    const uint32_t width = block->n_targets;
    for (uint32_t i = 0; i < block->n_seeds * (width ? width : 1); i++)
        if (width)
            ck_assert_float_eq(((float *)a->targets)[i], (float)i / 7);
        else
            ck_assert_int_eq(((int64_t *)a->targets)[i], ((const int32_t *)sl_view_targets(v))[i]);
}

static void setup(void)
{
    srand48(7);
    ck_assert_int_eq(sl_arrays_pool_open(&(struct sl_arrays_spec){0}, &pool), SL_OK);
}

static void teardown(void)
{
    sl_arrays_pool_close(pool);
}

static struct sl_arrays *get(void)
{
    struct sl_arrays *a;
    ck_assert_msg(sl_arrays_get(pool, true, &a) == SL_OK, "%s", sl_error_message());
    return a;
}

CASE(.name = "numbers", .setup = setup, .teardown = teardown)

TEST(they_are_those_of_the_block)
{
    static const uint32_t flags[] = {0, SL_BLOCK_HAS_EDGE_IDS, SL_BLOCK_HAS_WEIGHTS};
    struct sl_arrays *a = get();
    for (uint32_t i = 0; i < 300; i++) {
        const uint32_t has = flags[i % 3];
        make(1 + below(3), has, i % 2 ? TARGETS : 0);
        ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
        ck_assert_int_eq(a->edge_ids != NULL, has == SL_BLOCK_HAS_EDGE_IDS);
        ck_assert_int_eq(a->weights != NULL, has == SL_BLOCK_HAS_WEIGHTS);
        check_filled(a);
    }
    sl_arrays_free(a);
}

// Enough edges for several threads' parts.
TEST(they_are_those_of_a_large_block)
{
    static const uint32_t degrees[] = {300, 3000};
    struct sl_arrays *a = get();
    sl_kernels_set_threads(3);
    for (uint32_t i = 0; i < 12; i++) {
        make_with(3, i % 3 ? SL_BLOCK_HAS_EDGE_IDS : SL_BLOCK_HAS_WEIGHTS, 0, degrees[i % 2]);
        ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
        check_filled(a);
    }
    sl_kernels_set_threads(1);
    sl_arrays_free(a);
}

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

// Of the seeds in a list that ascends, in one that does not, and in that of all vertices.
TEST(places_are_those_in_the_list)
{
    uint32_t ids[500];
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t n = 1; n <= SL_COUNT_OF(ids); n = 2 * n + 1) {
            struct sl_arrays_pool *of_list;
            struct sl_arrays *a;
            for (uint32_t i = 0; i < n; i++)
                ids[i] = kind == 0 ? i : 3 * i + 1;
            for (uint32_t i = n; i-- > 1 && kind == 2;)
                swap(&ids[i], &ids[below(i)]);
            const struct sl_arrays_spec spec = {.seeds = {n, kind ? ids : NULL}};
            ck_assert_int_eq(sl_arrays_pool_open(&spec, &of_list), SL_OK);
            ck_assert_int_eq(sl_arrays_get(of_list, true, &a), SL_OK);
            make(1, 0, 0);
            uint32_t place[MAX_NODES];
            for (uint32_t i = 0; i < block->n_seeds; i++) {
                place[i] = below(n);
                ((uint32_t *)(void *)((char *)memory + block->nodes_offset))[i] = ids[place[i]];
            }
            ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
            for (uint32_t i = 0; i < block->n_seeds; i++)
                ck_assert_int_eq(a->places[i], place[i]);
            sl_arrays_free(a);
            sl_arrays_pool_close(of_list);
        }
    }
}

TEST(vertices_are_of_the_seed_whose_tree_has_them)
{
    struct sl_arrays *a = get();
    for (uint32_t n = 0; n < 100; n++) {
        make_disjoint();
        ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
        check_filled(a);
        for (uint32_t i = 0; i < block->n_input; i++)
            ck_assert_int_eq(a->seed_of[i], tree_of[i]);
    }
    make(2, 0, 0);
    ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
    ck_assert_ptr_null(a->seed_of);
    sl_arrays_free(a);
}

CASE(.name = "memory", .setup = setup, .teardown = teardown)

TEST(it_is_used_again_once_it_is_back)
{
    struct sl_arrays *one = get(), *two = get();
    make(2, 0, 0);
    ck_assert_int_eq(sl_arrays_fill(one, block, NULL), SL_OK);
    ck_assert_int_eq(sl_arrays_fill(two, block, NULL), SL_OK);
    ck_assert_ptr_ne(one->nodes, two->nodes);
    const void *numbers = two->numbers.p;
    sl_arrays_free(two);
    two = get();
    ck_assert_ptr_eq(two->numbers.p, numbers);
    check_filled(one);
    sl_arrays_free(one);
    sl_arrays_free(two);
}

static void count(void *n)
{
    ++*(int *)n;
}

// Whoever is ahead waits for one of the two pieces, as long as nobody waits for a batch.
TEST(there_are_more_only_for_a_loop_that_keeps_more)
{
    int n_freed = 0;
    struct sl_arrays_pool *p;
    struct sl_arrays *a[4], *more;
    const struct sl_arrays_spec spec = {.freed = count, .ctx = &n_freed};
    ck_assert_int_eq(sl_arrays_pool_open(&spec, &p), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, false, &a[0]), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, false, &a[1]), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, false, &more), SL_EAGAIN);
    sl_arrays_free(a[0]);
    ck_assert_int_eq(n_freed, 1);
    ck_assert_int_eq(sl_arrays_get(p, false, &a[0]), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, true, &a[2]), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, false, &a[3]), SL_OK);
    ck_assert_int_eq(sl_arrays_get(p, false, &more), SL_EAGAIN);
    sl_arrays_pool_close(p);
    for (int i = 0; i < 4; i++)
        sl_arrays_free(a[i]);
    ck_assert_int_eq(n_freed, 1); // nobody is told any more
}

TEST(it_outlives_the_loader)
{
    struct sl_arrays *a = get(), *other = get();
    make(2, SL_BLOCK_HAS_EDGE_IDS, 0);
    ck_assert_int_eq(sl_arrays_fill(a, block, NULL), SL_OK);
    sl_arrays_pool_close(pool);
    pool = NULL;
    check_filled(a);
    sl_arrays_free(other);
    sl_arrays_free(a); // the last one, with which the pool goes
    sl_arrays_free(NULL);
}

TEST(more_than_may_wait_is_freed)
{
    struct sl_arrays *many[8];
    for (int i = 0; i < 8; i++) {
        many[i] = get();
        make(1, 0, 0);
        ck_assert_int_eq(sl_arrays_fill(many[i], block, NULL), SL_OK);
    }
    for (int i = 0; i < 8; i++)
        sl_arrays_free(many[i]);
    int waited = 0;
    for (int i = 0; i < 8; i++)
        waited += (many[i] = get())->numbers.p != NULL;
    ck_assert_int_eq(waited, 2);
    for (int i = 0; i < 8; i++)
        sl_arrays_free(many[i]);
}

TEST(a_forked_process_leaves_it_alone)
{
    struct sl_arrays *a = get();
    const pid_t pid = fork();
    if (pid == 0) {
        sl_arrays_free(a);
        sl_arrays_pool_close(pool);
        _exit(a->pool == pool && a->next == NULL ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    sl_arrays_free(a);
}

static void *free_many(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        struct sl_arrays *a;
        if (sl_arrays_get(pool, true, &a) == SL_OK)
            sl_arrays_free(a);
    }
    return arg;
}

TEST(it_comes_back_in_any_thread)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, free_many, NULL), 0);
    free_many(NULL);
    pthread_join(thread, NULL);
    struct sl_arrays *a = get(), *b = get();
    ck_assert_ptr_ne(a, b);
    sl_arrays_free(a);
    sl_arrays_free(b);
}

RUN_TESTS(.timeout_s = 60)
