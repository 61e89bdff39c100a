#include "dataset/numbering.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/name_key.h"
#include "dataset/name_table.h"
#include "dataset/record_sort.h"
#include "dataset/spill.h"

enum { BATCH = 8192, NAMES_PER_LOOK = 65536 };

#define NO_CHUNK UINT32_MAX // of a name that stands in no edge

struct edge {
    uint32_t source, destination; // numbers of the chunk's table
    float weight;
};

struct chunk {
    uint64_t n_edges;
    uint32_t n_names;
};

// Where a name was met; as the key of the second sort, in big-endian order.
struct place {
    uint32_t chunk, number;
};

struct sl_numbering {
    char *dir;
    uint64_t memory_bytes;
    struct sl_name_table table; // of the chunk that is open
    struct sl_record_sort *names, *numbers;
    struct chunk *chunks;
    size_t n_chunks, chunks_capacity;
    uint64_t n_chunk_edges; // of the chunk that is open

    struct sl_spill spill; // edges, one behind the other
    size_t n;
    struct edge batch[BATCH];
};

int sl_numbering_create(const char *dir, uint64_t memory_bytes, struct sl_numbering **out)
{
    struct sl_numbering *nb = *out = calloc(1, sizeof *nb);
    if (!nb)
        return sl_fail(SL_ENOMEM, "names of vertices: no memory");
    int rc;
    nb->memory_bytes = memory_bytes;
    nb->dir = strdup(dir);
    SL_TRY_OUT(nb->dir ? SL_OK : sl_fail(SL_ENOMEM, "names of vertices: no memory"));
    SL_TRY_OUT(sl_spill_init(&nb->spill, dir, "names of vertices"));
    SL_TRY_OUT(sl_name_table_init(&nb->table, memory_bytes / 4));
    SL_TRY_OUT(sl_record_sort_create(dir, memory_bytes / 4, &nb->names));
out:
    if (rc < 0) {
        sl_numbering_destroy(nb);
        *out = NULL;
    }
    return rc;
}

void sl_numbering_destroy(struct sl_numbering *nb)
{
    if (!nb)
        return;
    sl_name_table_fini(&nb->table);
    sl_record_sort_destroy(nb->names);
    sl_record_sort_destroy(nb->numbers);
    sl_spill_fini(&nb->spill);
    free(nb->chunks);
    free(nb->dir);
    free(nb);
}

uint64_t sl_numbering_chunks(const struct sl_numbering *nb)
{
    return nb->n_chunks;
}

// ---- names in -----------------------------------------------------------------------------------

static int put_name(struct sl_numbering *nb, const char *name, size_t n, uint32_t chunk,
                    uint32_t number)
{
    unsigned char key[SL_NAME_KEY_BYTES];
    const struct place place = {htobe32(chunk), htobe32(number)};
    uint32_t n_key = sl_name_key(name, n, key);
    return sl_record_sort_add(nb->names, &(struct sl_record){.key = key,
                                                             .key_bytes = n_key,
                                                             .payload = &place,
                                                             .payload_bytes = sizeof place});
}

static int end_chunk(struct sl_numbering *nb)
{
    if (nb->n_chunks == nb->chunks_capacity) {
        size_t capacity = SL_MAX(nb->chunks_capacity * 2, (size_t)64);
        struct chunk *chunks = realloc(nb->chunks, capacity * sizeof *chunks);
        if (!chunks)
            return sl_fail(SL_ENOMEM, "names of vertices: no memory for %zu chunks", capacity);
        nb->chunks = chunks;
        nb->chunks_capacity = capacity;
    }
    size_t at = 0, n;
    const char *name;
    for (uint32_t i = 0; sl_name_table_next(&nb->table, &at, &name, &n); i++)
        SL_TRY(put_name(nb, name, n, (uint32_t)nb->n_chunks, i));
    nb->chunks[nb->n_chunks++] = (struct chunk){nb->n_chunk_edges, nb->table.n};
    nb->n_chunk_edges = 0;
    sl_name_table_clear(&nb->table);
    return sl_interrupt_check();
}

static int flush_edges(struct sl_numbering *nb)
{
    uint64_t offset;
    size_t bytes = nb->n * sizeof *nb->batch;
    nb->n = 0;
    SL_TRY(sl_spill_reserve(&nb->spill, bytes, &offset));
    return sl_spill_write(&nb->spill, nb->batch, bytes, offset);
}

int sl_numbering_put_edge(struct sl_numbering *nb, const char *source, size_t n_source,
                          const char *destination, size_t n_destination, float weight)
{
    struct edge e = {.weight = weight};
    sl_name_table_expect(&nb->table, source, n_source);
    sl_name_table_expect(&nb->table, destination, n_destination);
    for (bool full = true; full;) { // a table without names has room for two
        SL_TRY(sl_name_table_put(&nb->table, source, n_source, &e.source, &full));
        if (!full)
            SL_TRY(
                sl_name_table_put(&nb->table, destination, n_destination, &e.destination, &full));
        if (full)
            SL_TRY(end_chunk(nb));
    }
    nb->n_chunk_edges++;
    nb->batch[nb->n++] = e;
    return nb->n == BATCH ? flush_edges(nb) : SL_OK;
}

int sl_numbering_put_vertex(struct sl_numbering *nb, const char *name, size_t n)
{
    return put_name(nb, name, n, NO_CHUNK, 0);
}

// ---- numbers ------------------------------------------------------------------------------------

// A name with all the places where it was met.
struct group {
    uint64_t number;
    bool open, in_edges;
    uint32_t key_bytes;
    unsigned char key[SL_NAME_KEY_BYTES];
};

static int end_group(struct group *g, sl_numbering_name_fn *take, void *context)
{
    size_t n;
    if (!g->open)
        return SL_OK;
    const char *name = sl_name_of_key(g->key, g->key_bytes, &n);
    SL_TRY(take(context, g->number, name, n, g->in_edges));
    g->number++;
    return g->number % NAMES_PER_LOOK == 0 ? sl_interrupt_check() : SL_OK;
}

static int number_names(struct sl_numbering *nb, struct group *g, uint64_t max_names,
                        sl_numbering_name_fn *take, void *context)
{
    struct sl_record r;
    struct place place;
    for (;;) {
        bool more;
        SL_TRY(sl_record_sort_next(nb->names, &r, &more));
        if (!more)
            return end_group(g, take, context);
        if (!g->open || r.key_bytes != g->key_bytes || memcmp(r.key, g->key, r.key_bytes) != 0) {
            SL_TRY(end_group(g, take, context));
            if (g->number == max_names)
                return sl_fail(SL_EFORMAT,
                               "names of vertices: found more than %" PRIu64
                               " different names: wanted at most so many vertices",
                               max_names);
            g->open = true;
            g->in_edges = false;
            g->key_bytes = r.key_bytes;
            memcpy(g->key, r.key, r.key_bytes);
        }
        memcpy(&place, r.payload, sizeof place);
        if (place.chunk == NO_CHUNK)
            continue;
        uint32_t number = (uint32_t)g->number;
        g->in_edges = true;
        SL_TRY(
            sl_record_sort_add(nb->numbers, &(struct sl_record){.key = r.payload,
                                                                .key_bytes = r.payload_bytes,
                                                                .payload = &number,
                                                                .payload_bytes = sizeof number}));
    }
}

int sl_numbering_finish(struct sl_numbering *nb, uint64_t max_names, sl_numbering_name_fn *take,
                        void *context)
{
    struct group g = {0};
    SL_TRY(end_chunk(nb));
    if (nb->n > 0)
        SL_TRY(flush_edges(nb));
    sl_name_table_fini(&nb->table);
    SL_TRY(sl_record_sort_finish(nb->names));
    SL_TRY(sl_record_sort_create(nb->dir, nb->memory_bytes / 4, &nb->numbers));
    SL_TRY(number_names(nb, &g, max_names, take, context));
    sl_record_sort_destroy(nb->names);
    nb->names = NULL;
    return sl_record_sort_finish(nb->numbers);
}

// ---- edges out ----------------------------------------------------------------------------------

static int read_numbers(struct sl_numbering *nb, uint32_t n, uint32_t *number_of)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_record r;
        bool more;
        SL_TRY(sl_record_sort_next(nb->numbers, &r, &more));
        memcpy(&number_of[i], r.payload, sizeof *number_of); // each place stands there once
    }
    return SL_OK;
}

static int put_chunk(struct sl_numbering *nb, const struct chunk *c, uint64_t offset,
                     const uint32_t *number_of, sl_numbering_edge_fn *take, void *context)
{
    for (uint64_t done = 0; done < c->n_edges;) {
        size_t n = (size_t)SL_MIN(c->n_edges - done, (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_spill_read(&nb->spill, nb->batch, n * sizeof *nb->batch,
                             offset + done * sizeof *nb->batch));
        for (size_t i = 0; i < n; i++)
            SL_TRY(take(context, number_of[nb->batch[i].source],
                        number_of[nb->batch[i].destination], nb->batch[i].weight));
        done += n;
    }
    return SL_OK;
}

int sl_numbering_edges(struct sl_numbering *nb, sl_numbering_edge_fn *take, void *context)
{
    uint32_t most = 0;
    uint64_t offset = 0;
    for (size_t c = 0; c < nb->n_chunks; c++)
        most = SL_MAX(most, nb->chunks[c].n_names);
    uint32_t *number_of = malloc(((size_t)most + 1) * sizeof *number_of);
    if (!number_of)
        return sl_fail(SL_ENOMEM, "names of vertices: no memory for %" PRIu32 " numbers", most);
    int rc = SL_OK;
    for (size_t c = 0; c < nb->n_chunks && rc == SL_OK; c++) {
        rc = read_numbers(nb, nb->chunks[c].n_names, number_of);
        if (rc == SL_OK)
            rc = put_chunk(nb, &nb->chunks[c], offset, number_of, take, context);
        offset += nb->chunks[c].n_edges * sizeof(struct edge);
    }
    free(number_of);
    return rc;
}
