// A data set in memory, spread over nodes at random, of one type or of two: each byte of a row says
// whose it is.
#ifndef SL_TESTS_UNIT_SHARDS_FIXTURE_H
#define SL_TESTS_UNIT_SHARDS_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "common/arena/arena.h"
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "tests/unit/asserts.h"

enum { SHARDS_MAX = 4 };

struct shards {
    uint32_t n_nodes, count, row_bytes;
    uint8_t *part;
    uint32_t *row;
    char *feat[SHARDS_MAX];
    struct sl_dataset ds[SHARDS_MAX];
    // Of two types (shards_add_type()): vertices from `second` on have one number of 2 bytes.
    uint32_t second;
    char *narrow[SHARDS_MAX];
    struct sl_vertex_type type[SHARDS_MAX][2];
};

static inline char shards_byte(uint32_t vertex, uint32_t at)
{
    return (char)((vertex * 2654435761u + at * 40503u) >> 13);
}

// The last of `count` has no vertex where `empty`.
static inline struct shards shards_make(uint32_t n_nodes, uint32_t count, uint32_t feat_dim,
                                        enum sl_dtype dtype, bool empty)
{
    struct shards s = {.n_nodes = n_nodes,
                       .count = count,
                       .row_bytes = feat_dim * (uint32_t)sl_dtype_bytes(dtype),
                       .part = calloc(n_nodes, 1),
                       .row = calloc(n_nodes, sizeof *s.row)};
    uint32_t n[SHARDS_MAX] = {0};
    for (uint32_t v = 0; v < n_nodes; v++) {
        s.part[v] = (uint8_t)((v * 2246822519u >> 7) % (count - empty));
        s.row[v] = n[s.part[v]]++;
    }
    for (uint32_t i = 0; i < count; i++) {
        s.feat[i] = malloc((size_t)n[i] * s.row_bytes + 1);
        s.ds[i] = (struct sl_dataset){.n_nodes = n_nodes,
                                      .feat_dim = feat_dim,
                                      .feat_dtype = dtype,
                                      .feat = s.feat[i],
                                      .shard = {.count = count,
                                                .index = i,
                                                .digest = 77,
                                                .n_local = n[i],
                                                .part = s.part,
                                                .part_dtype = SL_DTYPE_U8,
                                                .row = s.row}};
    }
    for (uint32_t v = 0; v < n_nodes; v++)
        for (uint32_t i = 0; i < s.row_bytes; i++)
            s.feat[s.part[v]][(size_t)s.row[v] * s.row_bytes + i] = shards_byte(v, i);
    return s;
}

// Makes the vertices from `second` on a type of their own. The struct must not move then.
static inline void shards_add_type(struct shards *s, uint32_t second)
{
    uint32_t n[SHARDS_MAX][2] = {0};
    s->second = second;
    for (uint32_t v = 0; v < s->n_nodes; v++)
        s->row[v] = n[s->part[v]][v >= second]++;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sl_dataset *ds = &s->ds[i];
        s->narrow[i] = malloc(2 * (size_t)n[i][1] + 1);
        s->type[i][0] = (struct sl_vertex_type){.n = second,
                                                .n_local = n[i][0],
                                                .feat_dim = ds->feat_dim,
                                                .feat_dtype = ds->feat_dtype,
                                                .feat = s->feat[i]};
        s->type[i][1] = (struct sl_vertex_type){.first = second,
                                                .n = s->n_nodes - second,
                                                .n_local = n[i][1],
                                                .feat_dim = 1,
                                                .feat_dtype = SL_DTYPE_F16,
                                                .feat = s->narrow[i]};
        ds->feat_dim = 0;
        ds->feat = NULL;
        ds->typed = (struct sl_typed){.n_types = 2, .type = s->type[i]};
    }
    for (uint32_t v = second; v < s->n_nodes; v++)
        for (uint32_t i = 0; i < 2; i++)
            s->narrow[s->part[v]][2 * (size_t)s->row[v] + i] = shards_byte(v, i);
}

static inline uint32_t shards_width(const struct shards *s, uint32_t vertex)
{
    return s->second && vertex >= s->second ? 2 : s->row_bytes;
}

// The row that its node has.
static inline const char *shards_row(const struct shards *s, uint32_t vertex)
{
    const uint32_t bytes = shards_width(s, vertex), part = s->part[vertex];
    return (bytes == s->row_bytes ? s->feat : s->narrow)[part] + (size_t)s->row[vertex] * bytes;
}

static inline void shards_free(struct shards *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->feat[i]);
        free(s->narrow[i]);
    }
    free(s->part);
    free(s->row);
}

static inline void shards_expect_row(const struct shards *s, uint32_t vertex, const void *row)
{
    for (uint32_t i = 0; i < shards_width(s, vertex); i++)
        ck_assert_msg(((const char *)row)[i] == shards_byte(vertex, i),
                      "byte %u of the row of vertex %u", i, vertex);
}

// One node's arena with this many slots of so many rows each.
static inline int shards_arena(const struct shards *s, uint32_t n_slots, uint32_t max_rows,
                               struct sl_arena *out)
{
    const struct sl_arena_spec spec = {
        .n_devices = 1,
        .n_cells = 4,
        .n_train = 16,
        .n_params = 16,
        .batches_per_update = 4,
        .rows = {.n_rows = s->n_nodes,
                 .n_slots = s->n_nodes,
                 .n_widths = 1,
                 .width[0] = {s->row_bytes, s->n_nodes}},
        .asks = {.n_slots = n_slots,
                 .n_nodes = s->count,
                 .max_rows = max_rows,
                 .row_bytes = s->row_bytes},
        .payload_bytes = 1 << 16,
    };
    const int fd = sl_arena_memfd();
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(sl_arena_create(fd, &spec, out) == SL_OK, "%s", sl_error_message());
    return fd;
}

#endif
