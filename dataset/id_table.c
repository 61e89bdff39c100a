#include "dataset/id_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "dataset/name_key.h"

enum { DIGITS_BYTES = 24 };

// ---- whole numbers ------------------------------------------------------------------------------

// Whether the text is a whole number that 64 bits hold.
static bool scan_whole(const char *text, size_t n, int64_t *out)
{
    const bool negative = n > 0 && text[0] == '-';
    uint64_t x = 0;
    size_t i = n > 0 && (text[0] == '-' || text[0] == '+');
    if (i == n)
        return false;
    for (; i < n; i++) {
        const unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, digit, &x))
            return false;
    }
    *out = (int64_t)(negative ? 0 - x : x);
    return x <= (uint64_t)INT64_MAX;
}

static size_t print_whole(char text[DIGITS_BYTES], int64_t x)
{
    return (size_t)snprintf(text, DIGITS_BYTES, "%" PRId64, x);
}

// Whether a whole number is written without a plus or zeros in front, as print_whole() does.
static bool is_plain(const char *text, size_t n)
{
    const size_t sign = text[0] == '-';
    return text[0] != '+' && (text[sign] != '0' || n == 1);
}

// ---- while rows are read ------------------------------------------------------------------------

void sl_id_table_init(struct sl_id_table *t, uint64_t memory_bytes)
{
    *t = (struct sl_id_table){.memory_bytes = memory_bytes, .counting = true, .whole = true};
}

void sl_id_table_fini(struct sl_id_table *t)
{
    if (t->names.text)
        sl_name_table_fini(&t->names);
    free(t->vertex_of);
    t->vertex_of = NULL;
}

static int put_name(struct sl_id_table *t, const char *text, size_t n, uint32_t *number)
{
    bool full;
    SL_TRY(sl_name_table_put(&t->names, text, n, number, &full));
    if (full)
        return sl_fail(SL_EUNSUPPORTED,
                       "ids of vertices: %" PRIu32
                       " of them fill the memory that they may take: give a larger --memory",
                       t->names.n);
    return SL_OK;
}

// The first id that is not its row's number: the ones before become names, too.
static int stop_counting(struct sl_id_table *t)
{
    char digits[DIGITS_BYTES];
    uint32_t number;
    t->counting = false;
    SL_TRY(sl_name_table_init(&t->names, t->memory_bytes));
    for (uint64_t row = 0; row < t->n; row++)
        SL_TRY(put_name(t, digits, print_whole(digits, (int64_t)row), &number));
    return SL_OK;
}

int sl_id_table_put(struct sl_id_table *t, const char *text, size_t n, bool *twice)
{
    int64_t value = -1;
    uint32_t number;
    t->whole = t->whole && scan_whole(text, n, &value);
    const bool plain = t->whole && is_plain(text, n);
    t->padded |= t->whole && !plain;
    *twice = false;
    if (t->counting && plain && (uint64_t)value == t->n) {
        t->n++;
        return SL_OK;
    }
    if (t->counting)
        SL_TRY(stop_counting(t));
    SL_TRY(put_name(t, text, n, &number));
    *twice = number != t->n;
    t->n += !*twice;
    return SL_OK;
}

// ---- their order --------------------------------------------------------------------------------

struct entry {
    union {
        int64_t value;
        const char *text;
    } key;
    uint32_t row;
    uint16_t n; // bytes of text
};

static int by_value(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->key.value > y->key.value) - (x->key.value < y->key.value);
}

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const int order = memcmp(x->key.text, y->key.text, x->n < y->n ? x->n : y->n);
    return order ? order : x->n - y->n;
}

static void number_vertices(struct sl_id_table *t, struct entry *e, uint64_t *twice)
{
    const char *name;
    size_t at = 0, n;
    for (uint64_t row = 0; sl_name_table_next(&t->names, &at, &name, &n); row++) {
        e[row] = (struct entry){.key.text = name, .row = (uint32_t)row, .n = (uint16_t)n};
        if (t->whole)
            scan_whole(name, n, &e[row].key.value);
    }
    qsort(e, t->n, sizeof *e, t->whole ? by_value : by_bytes);
    t->dense = t->whole;
    for (uint64_t v = 0; v < t->n; v++) {
        t->vertex_of[e[v].row] = (uint32_t)v;
        t->dense = t->dense && e[v].key.value == (int64_t)v;
        if (v > 0 && t->whole && e[v].key.value == e[v - 1].key.value)
            *twice = e[v].row > e[v - 1].row ? e[v].row : e[v - 1].row;
    }
}

// The same names without zeros and signs in front, so that they are found however they are written.
static int tidy_names(struct sl_id_table *t)
{
    struct sl_name_table raw = t->names;
    char digits[DIGITS_BYTES];
    const char *name;
    size_t at = 0, n;
    uint32_t number;
    int64_t value = 0;
    int rc = sl_name_table_init(&t->names, t->memory_bytes);
    while (rc == SL_OK && sl_name_table_next(&raw, &at, &name, &n)) {
        scan_whole(name, n, &value);
        rc = put_name(t, digits, print_whole(digits, value), &number);
    }
    sl_name_table_fini(&raw);
    return rc;
}

int sl_id_table_finish(struct sl_id_table *t, uint64_t *twice)
{
    *twice = UINT64_MAX;
    t->dense = t->counting;
    if (t->counting)
        return SL_OK;
    struct entry *e = malloc(t->n * sizeof *e);
    t->vertex_of = malloc(t->n * sizeof *t->vertex_of);
    if (e && t->vertex_of)
        number_vertices(t, e, twice);
    free(e);
    if (!e || !t->vertex_of)
        return sl_fail(SL_ENOMEM, "ids of vertices: no memory for %" PRIu64 " of them", t->n);
    if (t->dense)
        sl_name_table_fini(&t->names);
    return t->dense || !t->padded || !t->whole || *twice != UINT64_MAX ? SL_OK : tidy_names(t);
}

// ---- afterwards ---------------------------------------------------------------------------------

bool sl_id_table_find(const struct sl_id_table *t, const char *text, size_t n, uint32_t *vertex)
{
    char digits[DIGITS_BYTES];
    int64_t value;
    uint32_t row;
    if (t->whole) {
        if (!scan_whole(text, n, &value))
            return false;
        *vertex = (uint32_t)value;
        if (t->dense)
            return value >= 0 && (uint64_t)value < t->n;
        if (!is_plain(text, n)) {
            n = print_whole(digits, value);
            text = digits;
        }
    }
    if (!sl_name_table_find(&t->names, text, n, &row))
        return false;
    *vertex = t->vertex_of[row];
    return true;
}

int sl_id_table_write(const struct sl_id_table *t, struct sl_names_writer *names)
{
    char digits[DIGITS_BYTES];
    struct entry *e;
    const char *name;
    size_t at = 0, n;
    int rc = SL_OK;
    for (uint64_t v = 0; v < t->n && t->dense && rc == SL_OK; v++)
        rc = sl_names_writer_put(names, digits, print_whole(digits, (int64_t)v));
    if (t->dense)
        return rc;
    e = malloc(t->n * sizeof *e);
    if (!e)
        return sl_fail(SL_ENOMEM, "ids of vertices: no memory for %" PRIu64 " of them", t->n);
    for (uint64_t row = 0; sl_name_table_next(&t->names, &at, &name, &n); row++)
        e[t->vertex_of[row]] = (struct entry){.key.text = name, .n = (uint16_t)n};
    for (uint64_t v = 0; v < t->n && rc == SL_OK; v++)
        rc = sl_names_writer_put(names, e[v].key.text, e[v].n);
    free(e);
    return rc;
}

uint64_t sl_id_table_bytes(const struct sl_id_table *t)
{
    return (t->vertex_of ? t->n * sizeof *t->vertex_of : 0) + t->names.used +
           t->names.n_slots * sizeof *t->names.slots;
}
