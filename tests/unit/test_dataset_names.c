// Names to numbers on disk: records sorted in runs, chunks of names, the order that numbers follow.
#include "common/data/names.h"
#include "dataset/id_table.h"
#include "dataset/name_key.h"
#include "dataset/name_table.h"
#include "dataset/numbering.h"
#include "dataset/record_sort.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20) % n;
}

// ---- records ------------------------------------------------------------------------------------

struct row {
    char key[40];
    uint32_t key_bytes, payload_bytes, number;
};

static int by_key_and_number(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = sl_name_key_compare(x->key, x->key_bytes, y->key, y->key_bytes);
    return order ? order : x->number < y->number ? -1 : 1;
}

static const struct {
    uint64_t memory;
    uint32_t rows, keys, longest; // payload, in words of 4 bytes
} record_shapes[] = {
    {1 << 20, 0, 1, 1},       {1 << 20, 1, 1, 1},      {1 << 20, 5000, 4000, 3},
    {4096, 5000, 4000, 3},    {4096, 5000, 7, 1},      {4096, 3000, 3000, 500},
    {20000, 60000, 50000, 1}, {65536, 3000, 10, 9000}, {4096, 86, 86, 1},
};

// More runs than are merged at once, records larger than the memory, many equal keys.
LOOP_TEST(records_come_out_by_key_and_equal_ones_as_they_came, 0, SL_COUNT_OF(record_shapes))
{
    const uint32_t n = record_shapes[_i].rows, longest = record_shapes[_i].longest;
    struct row *rows = calloc(n + 1, sizeof *rows);
    uint32_t *payload = malloc(longest * sizeof *payload);
    struct sl_record_sort *s;
    struct sl_record r;
    bool more;
    must(sl_record_sort_create(dir, record_shapes[_i].memory, &s));
    for (uint32_t i = 0; i < n; i++) {
        struct row *row = &rows[i];
        uint32_t k = below(record_shapes[_i].keys);
        // A key may be the beginning of another one, and have any bytes.
        row->key_bytes = (uint32_t)snprintf(row->key, sizeof row->key, "%.*sx%u", (int)(k % 9),
                                            "\x01\xff\x80same..", k / 3) +
                         k % 3;
        row->number = i;
        row->payload_bytes = 4 * (1 + below(longest));
        for (uint32_t w = 0; w < row->payload_bytes / 4; w++)
            payload[w] = i + w;
        must(sl_record_sort_add(
            s, &(struct sl_record){row->key, payload, row->key_bytes, row->payload_bytes}));
    }
    must(sl_record_sort_finish(s));
    qsort(rows, n, sizeof *rows, by_key_and_number);
    for (uint32_t i = 0; i < n; i++) {
        must(sl_record_sort_next(s, &r, &more));
        ck_assert(more);
        ck_assert_uint_eq(r.key_bytes, rows[i].key_bytes);
        ck_assert_uint_eq(r.payload_bytes, rows[i].payload_bytes);
        ck_assert(memcmp(r.key, rows[i].key, r.key_bytes) == 0);
        memcpy(payload, r.payload, r.payload_bytes);
        ck_assert_msg(payload[0] == rows[i].number, "record %u is %u, not %u", i, payload[0],
                      rows[i].number);
        ck_assert_uint_eq(payload[r.payload_bytes / 4 - 1],
                          rows[i].number + r.payload_bytes / 4 - 1);
    }
    must(sl_record_sort_next(s, &r, &more));
    ck_assert(!more);
    if (record_shapes[_i].memory < 65536 && n > 1000)
        ck_assert_uint_gt(sl_record_sort_runs(s), 2);
    sl_record_sort_destroy(s);
    ck_assert_int_eq(count_entries(), 0);
    free(rows);
    free(payload);
}

// ---- the order of names -------------------------------------------------------------------------

TEST(numbers_come_by_value_and_before_text)
{
    static const char *const sorted[] = {
        "0",
        "7",
        "10",
        "99",
        "4294967296",
        "18446744073709551616",
        "99999999999999999999999999999999999999",
        "",
        "-1",
        "007",
        "00",
        "1.0",
        "1a",
        "New York",
        "a",
        "aa",
        "b",
        "\xc3\xa4",
    };
    unsigned char a[SL_NAME_KEY_BYTES], b[SL_NAME_KEY_BYTES];
    for (size_t i = 0; i < SL_COUNT_OF(sorted); i++) {
        size_t n;
        uint32_t n_a = sl_name_key(sorted[i], strlen(sorted[i]), a);
        ck_assert_ptr_eq(sl_name_of_key(a, n_a, &n), a + n_a - strlen(sorted[i]));
        ck_assert_uint_eq(n, strlen(sorted[i]));
        for (size_t k = 0; k < SL_COUNT_OF(sorted); k++) {
            uint32_t n_b = sl_name_key(sorted[k], strlen(sorted[k]), b);
            int order = sl_name_key_compare(a, n_a, b, n_b);
            // "007" and "00" stand in the order of their bytes.
            if (i != k && strcmp(sorted[i], "007") && strcmp(sorted[k], "007"))
                ck_assert_msg((order < 0) == (i < k), "'%s' and '%s'", sorted[i], sorted[k]);
            else if (i == k)
                ck_assert_int_eq(order, 0);
        }
    }
}

TEST(a_table_is_full_when_it_says_so)
{
    struct sl_name_table t;
    char name[32];
    uint32_t number, n = 0;
    bool full = false;
    must(sl_name_table_init(&t, 1 << 16));
    for (uint32_t i = 0; !full; i++) {
        snprintf(name, sizeof name, "name %u", i);
        must(sl_name_table_put(&t, name, strlen(name), &number, &full));
        n += !full;
        ck_assert(full || number == i);
    }
    ck_assert_uint_gt(n, 500);
    size_t at = 0, length;
    const char *text;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "name %u", i);
        must(sl_name_table_put(&t, name, strlen(name), &number, &full)); // known ones have room
        ck_assert(!full && number == i);
        ck_assert(sl_name_table_find(&t, name, strlen(name), &number) && number == i);
        ck_assert(sl_name_table_next(&t, &at, &text, &length));
        ck_assert(length == strlen(name) && memcmp(text, name, length) == 0);
    }
    ck_assert(!sl_name_table_next(&t, &at, &text, &length));
    ck_assert(!sl_name_table_find(&t, "name x", 6, &number));
    sl_name_table_clear(&t);
    ck_assert(!sl_name_table_find(&t, "name 1", 6, &number));
    must(sl_name_table_put(&t, "", 0, &number, &full));
    ck_assert(!full && number == 0);
    sl_name_table_fini(&t);
}

// ---- numbers ------------------------------------------------------------------------------------

enum { NAME_BYTES = 600 };

struct world {
    char (*names)[NAME_BYTES]; // different, in the order of their numbers
    bool *in_edges;            // wanted
    uint32_t n;
    const uint32_t (*edges)[2]; // numbers, in the order in which they were put
    uint64_t n_taken, n_edges_taken;
};

static int take_name(void *context, uint64_t number, const char *name, size_t n, bool in_edges)
{
    struct world *w = context;
    ck_assert_uint_eq(number, w->n_taken++);
    ck_assert_uint_lt(number, w->n);
    ck_assert_msg(n == strlen(w->names[number]) && memcmp(name, w->names[number], n) == 0,
                  "number %u is '%.*s', not '%s'", (unsigned)number, (int)n, name,
                  w->names[number]);
    ck_assert(in_edges == w->in_edges[number]);
    return SL_OK;
}

static int take_edge(void *context, uint32_t source, uint32_t destination, double weight)
{
    struct world *w = context;
    const uint32_t *wanted = w->edges[w->n_edges_taken];
    ck_assert_uint_eq(source, wanted[0]);
    ck_assert_uint_eq(destination, wanted[1]);
    ck_assert(weight == (double)w->n_edges_taken++);
    return SL_OK;
}

static int by_name(const void *a, const void *b)
{
    unsigned char x[SL_NAME_KEY_BYTES], y[SL_NAME_KEY_BYTES];
    uint32_t n = sl_name_key(a, strlen(a), x), m = sl_name_key(b, strlen(b), y);
    return sl_name_key_compare(x, n, y, m);
}

// Names of n different vertices, numbers and text, `longest` bytes at most.
static void make_names(struct world *w, uint32_t n, uint32_t longest)
{
    w->names = calloc(n + 1, NAME_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        char *name = w->names[i];
        int at =
            i % 3 == 0 ? sprintf(name, "%u", i * 7919u) : sprintf(name, "%s%u", "v \"\xff,", i);
        uint32_t more = below(longest);
        for (uint32_t k = 0; i % 3 && k < more && at < NAME_BYTES - 1; k++)
            name[at++] = (char)('a' + below(3));
    }
    qsort(w->names, n, NAME_BYTES, by_name);
    w->n = n;
}

static const struct {
    uint64_t memory;
    uint32_t names, edges, longest;
} worlds[] = {
    {1 << 20, 0, 0, 1},         {1 << 20, 1, 1, 1},          {1 << 20, 1, 3000, 1},
    {1 << 20, 3000, 9000, 20},  {1, 3000, 9000, 20},         {1, 3000, 9000, NAME_BYTES},
    {1, 40, 20000, NAME_BYTES}, {1 << 18, 20000, 50000, 30}, {1, 2000, 500, 100},
};

LOOP_TEST(edges_of_names_are_edges_of_numbers_whatever_the_memory, 0, SL_COUNT_OF(worlds))
{
    struct world w = {0};
    const uint32_t n_edges = worlds[_i].edges;
    uint32_t(*edges)[2] = calloc(n_edges + 1, sizeof *edges);
    struct sl_numbering *nb;
    make_names(&w, worlds[_i].names, worlds[_i].longest);
    w.edges = (const uint32_t(*)[2])edges;
    w.in_edges = calloc(w.n + 1, sizeof *w.in_edges);
    must(sl_numbering_create(dir, worlds[_i].memory, &nb));
    for (uint32_t i = 0; i < n_edges; i++) {
        // Some once, some often, some ends alike.
        uint32_t s = edges[i][0] = below(i % 2 ? w.n : 1 + w.n / 10), d = edges[i][1] = below(w.n);
        w.in_edges[s] = w.in_edges[d] = true;
        must(sl_numbering_put_edge(nb, w.names[s], strlen(w.names[s]), w.names[d],
                                   strlen(w.names[d]), i));
    }
    for (uint32_t i = 0; i < w.n; i++) // those without an edge among them
        if (!w.in_edges[i] || i % 3 == 0)
            must(sl_numbering_put_vertex(nb, w.names[i], strlen(w.names[i])));
    must(sl_numbering_finish(nb, UINT32_MAX - 1, take_name, &w));
    ck_assert_uint_eq(w.n_taken, w.n);
    must(sl_numbering_edges(nb, take_edge, &w));
    ck_assert_uint_eq(w.n_edges_taken, n_edges);
    if (worlds[_i].memory == 1 && n_edges > 5000)
        ck_assert_uint_gt(sl_numbering_chunks(nb), 2);
    sl_numbering_destroy(nb);
    ck_assert_int_eq(count_entries(), 0);
    free(edges);
    free(w.names);
    free(w.in_edges);
}

// A chunk ends before, behind and between the names of an edge: every remainder occurs.
TEST(chunks_may_end_anywhere)
{
    for (uint32_t shift = 0; shift < 12; shift++) {
        struct world w = {0};
        uint32_t edges[600][2];
        struct sl_numbering *nb;
        make_names(&w, 300, NAME_BYTES);
        w.edges = (const uint32_t(*)[2])edges;
        w.in_edges = calloc(w.n, sizeof *w.in_edges);
        must(sl_numbering_create(dir, 1, &nb));
        for (uint32_t i = 0; i < 600; i++) {
            uint32_t s = edges[i][0] = i < shift ? 0 : (i - shift) * 2 % w.n;
            uint32_t d = edges[i][1] = i < shift ? i : (i - shift) * 2 % w.n + 1;
            w.in_edges[s] = w.in_edges[d] = true;
            must(sl_numbering_put_edge(nb, w.names[s], strlen(w.names[s]), w.names[d],
                                       strlen(w.names[d]), i));
        }
        must(sl_numbering_finish(nb, UINT32_MAX - 1, take_name, &w));
        must(sl_numbering_edges(nb, take_edge, &w));
        ck_assert_uint_eq(w.n_edges_taken, 600);
        ck_assert_uint_gt(sl_numbering_chunks(nb), 3);
        sl_numbering_destroy(nb);
        free(w.names);
        free(w.in_edges);
    }
}

static int ignore_name(void *context, uint64_t number, const char *name, size_t n, bool in_edges)
{
    (void)context, (void)number, (void)name, (void)n, (void)in_edges;
    return SL_OK;
}

TEST(more_names_than_vertices_can_be_are_refused)
{
    struct sl_numbering *nb;
    must(sl_numbering_create(dir, 1 << 20, &nb));
    must(sl_numbering_put_edge(nb, "a", 1, "b", 1, 0));
    must(sl_numbering_put_edge(nb, "b", 1, "c", 1, 0));
    ck_assert_int_eq(sl_numbering_finish(nb, 2, ignore_name, NULL), SL_EFORMAT);
    assert_message_has("found more than 2 different names");
    sl_numbering_destroy(nb);
}

// ---- files --------------------------------------------------------------------------------------

TEST(names_are_mapped_as_they_were_written)
{
    struct sl_names_writer w;
    struct sl_names names;
    const char *text;
    size_t n;
    ck_assert_int_eq(sl_names_open(dir, SL_NAMES_VERTEX, 3, &names), SL_ENOENT);
    must(sl_names_writer_open(&w, dir, SL_NAMES_VERTEX));
    must(sl_names_writer_put(&w, "alice", 5));
    must(sl_names_writer_put(&w, "", 0));
    must(sl_names_writer_put(&w, "New York", 8));
    must(sl_names_writer_close(&w, SL_OK));
    must(sl_names_open(dir, SL_NAMES_VERTEX, 3, &names));
    must(sl_names_check(&names));
    must(sl_names_get(&names, 2, &text, &n));
    ck_assert(n == 8 && memcmp(text, "New York", 8) == 0);
    must(sl_names_get(&names, 1, &text, &n));
    ck_assert_uint_eq(n, 0);
    sl_names_close(&names);
    ck_assert_int_eq(sl_names_open(dir, SL_NAMES_VERTEX, 4, &names), SL_EFORMAT);
    assert_message_has("vertex_name_offsets.npy: is int64 (4,): wanted int64 (5,)");
    WRITE_I64("vertex_name_offsets.npy", 0, 5, 4, 13);
    must(sl_names_open(dir, SL_NAMES_VERTEX, 3, &names));
    must(sl_names_get(&names, 0, &text, &n));
    ck_assert_int_eq(sl_names_get(&names, 1, &text, &n), SL_EFORMAT);
    assert_message_has("name 1 has the bytes 5 to 4 of 13");
    ck_assert_int_eq(sl_names_check(&names), SL_EFORMAT);
    sl_names_close(&names);
    WRITE_I64("vertex_name_offsets.npy", 0, 5, 5, 14);
    must(sl_names_open(dir, SL_NAMES_VERTEX, 3, &names));
    ck_assert_int_eq(sl_names_check(&names), SL_EFORMAT);
    sl_names_close(&names);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)

// ---- ids of a table -----------------------------------------------------------------------------

static const struct {
    const char *ids[6], *other[6]; // rows, and how else each may be written
    int vertex[6];
    bool whole, dense;
    int twice; // the row that is there before, 0: none
} id_tables[] = {
    {{"0", "1", "2"}, {"00", "+1", "2"}, {0, 1, 2}, true, true, 0},
    {{"2", "0", "1"}, {"2", "-0", "01"}, {2, 0, 1}, true, true, 0},
    {{"0", "1", "7", "-3"}, {"0", "+1", "007", "-03"}, {1, 2, 3, 0}, true, false, 0},
    {{"10", "9", "0011", "+8"}, {"010", "09", "11", "8"}, {2, 1, 3, 0}, true, false, 0},
    {{"9223372036854775807", "-9223372036854775807"},
     {"09223372036854775807", "-9223372036854775807"},
     {1, 0},
     true,
     false,
     0},
    {{"9223372036854775808", "5"}, {"9223372036854775808", "5"}, {1, 0}, false, false, 0},
    {{"0", "1", "x", "10", "9"}, {"0", "1", "x", "10", "9"}, {0, 1, 4, 2, 3}, false, false, 0},
    {{"a", "ab", "", "B"}, {"a", "ab", "", "B"}, {2, 3, 0, 1}, false, false, 0},
    {{"0", "1", "1"}, {""}, {0}, true, true, 2},
    {{"5", "4", "05"}, {""}, {0}, true, true, 2},
    {{"x", "0", "x"}, {""}, {0}, true, true, 2},
};

LOOP_TEST(ids_are_numbered_by_value_or_by_bytes, 0, SL_COUNT_OF(id_tables))
{
    struct sl_id_table t;
    uint64_t late = UINT64_MAX;
    bool twice = false;
    int n = 0;
    sl_id_table_init(&t, 1 << 20);
    for (; n < 6 && id_tables[_i].ids[n] && !twice; n++)
        must(sl_id_table_put(&t, id_tables[_i].ids[n], strlen(id_tables[_i].ids[n]), &twice));
    if (!twice)
        must(sl_id_table_finish(&t, &late));
    ck_assert_int_eq(twice ? n - 1 : late == UINT64_MAX ? 0 : (int)late, id_tables[_i].twice);
    for (int row = 0; row < n && !id_tables[_i].twice; row++) {
        const char *texts[] = {id_tables[_i].ids[row], id_tables[_i].other[row]};
        ck_assert_uint_eq(sl_id_table_vertex(&t, row), id_tables[_i].vertex[row]);
        for (int k = 0; k < 2; k++) {
            uint32_t vertex;
            ck_assert_msg(sl_id_table_find(&t, texts[k], strlen(texts[k]), &vertex), "'%s'",
                          texts[k]);
            ck_assert_uint_eq(vertex, id_tables[_i].vertex[row]);
        }
    }
    if (!id_tables[_i].twice) {
        uint32_t vertex;
        ck_assert(t.whole == id_tables[_i].whole && t.dense == id_tables[_i].dense);
        ck_assert(!sl_id_table_find(&t, "12", 2, &vertex) &&
                  !sl_id_table_find(&t, "y", 1, &vertex));
    }
    sl_id_table_fini(&t);
}
