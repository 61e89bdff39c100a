// Copies of rows of a large table, which are made in the order in which the rows lie: every row is
// at the place that was asked for.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/feed/rows.h"

enum {
    DIM = 32,
    FIRST = 1000,                    // vertices before those of the table's type
    FEWEST = (16 << 20) / (DIM * 4), // rows of a table that is large
};

// Copies of n rows of a table of n_rows.
struct shape {
    uint32_t n_rows, n;
};

static const struct shape shapes[] = {
    {FEWEST - 1, 5000}, {FEWEST, 4095},     {FEWEST, 4096},           {FEWEST + 1, 4097},
    {FEWEST, 8191},     {FEWEST, 8192},     {2047 << 6, 12289},       {(2047 << 6) - 1, 12289},
    {2047 << 7, 65536}, {2048 << 7, 65535}, {(2047 << 7) + 1, 70001},
};

static struct sl_vertex_type types[2];
static struct sl_dataset ds;
static struct sl_row_source source;
static void *table;
static uint32_t *vertices, *places;

static float number_of(uint32_t row, uint32_t column)
{
    return (float)((row * 7919u + column * 31u) % 2039u); // of which f16 has each
}

// Of type 1, whose rows are of this kind of numbers.
static void make_table(uint32_t n_rows, enum sl_dtype dtype)
{
    table = fixture_alloc((uint64_t)n_rows * DIM * sizeof(float));
    for (uint64_t i = 0; i < (uint64_t)n_rows * DIM; i++) {
        const float x = number_of((uint32_t)(i / DIM), (uint32_t)(i % DIM));
        if (dtype == SL_DTYPE_F16)
            ((uint16_t *)table)[i] = sl_half_from_float(x);
        else
            ((float *)table)[i] = x;
    }
    types[0] = (struct sl_vertex_type){.n = FIRST};
    types[1] = (struct sl_vertex_type){
        .first = FIRST, .n = n_rows, .feat_dim = DIM, .feat_dtype = dtype, .feat = table};
    ds = (struct sl_dataset){.n_nodes = FIRST + n_rows, .typed = {.n_types = 2, .type = types}};
    source.dataset = &ds;
}

// Duplicates, the first and the last row among them; and places in another order.
static void choose(const struct shape *shape, uint32_t n_places)
{
    struct fixture_rng r = {.seed = shape->n};
    vertices = fixture_alloc(shape->n * sizeof *vertices);
    places = fixture_alloc(n_places * sizeof *places);
    for (uint32_t i = 0; i < shape->n; i++)
        vertices[i] = FIRST + fixture_word(&r) % shape->n_rows;
    vertices[1] = FIRST + shape->n_rows - 1;
    vertices[3] = vertices[shape->n - 1] = FIRST;
    for (uint32_t i = 0; i < n_places; i++)
        places[i] = i;
    for (uint32_t i = n_places - 1; i > 0; i--) {
        const uint32_t k = fixture_word(&r) % (i + 1), place = places[k];
        places[k] = places[i];
        places[i] = place;
    }
}

static void drop(void)
{
    free(table);
    free(vertices);
    free(places);
    sl_row_source_fini(&source);
    table = vertices = places = NULL;
}

static void check(const struct shape *shape, const uint32_t *to, const float *x)
{
    for (uint32_t i = 0; i < shape->n; i++)
        for (uint32_t c = 0; c < DIM; c++) {
            const float found = x[(uint64_t)(to ? to[i] : i) * DIM + c];
            const float wanted = number_of(vertices[i] - FIRST, c);
            ck_assert_msg(found == wanted, "%u of %u rows: row %u, column %u: %g, wanted %g",
                          shape->n, shape->n_rows, i, c, (double)found, (double)wanted);
        }
}

CASE(.teardown = drop)
LOOP_TEST(copies_to_places_of_their_own_and_to_named_ones, 0, SL_COUNT_OF(shapes))
{
    const struct shape *shape = &shapes[_i];
    const uint32_t n_places = shape->n + 100;
    float *x = fixture_alloc((uint64_t)n_places * DIM * sizeof *x);
    make_table(shape->n_rows, SL_DTYPE_F32);
    choose(shape, n_places);
    ck_assert_int_eq(
        sl_rows_copy_of(&source, 1, sl_kernels_cpu(), vertices, NULL, shape->n, shape->n, x),
        SL_OK);
    check(shape, NULL, x);
    memset(x, 0xff, (uint64_t)n_places * DIM * sizeof *x);
    ck_assert_int_eq(
        sl_rows_copy_of(&source, 1, sl_kernels_cpu(), vertices, places, shape->n, n_places, x),
        SL_OK);
    check(shape, places, x);
    for (uint32_t i = shape->n; i < n_places; i++) // which nobody asked for
        for (uint32_t c = 0; c < DIM; c++)
            ck_assert(isnan(x[(uint64_t)places[i] * DIM + c]));
    free(x);
}

LOOP_TEST(copies_of_halves_become_floats, 0, SL_COUNT_OF(shapes))
{
    const struct shape *shape = &shapes[_i], larger = {2 * shape->n_rows, shape->n};
    float *x = fixture_alloc((uint64_t)shape->n * DIM * sizeof *x);
    make_table(larger.n_rows, SL_DTYPE_F16);
    choose(&larger, shape->n);
    ck_assert_int_eq(
        sl_rows_convert_of(&source, 1, sl_kernels_cpu(), vertices, places, shape->n, shape->n, x),
        SL_OK);
    check(&larger, places, x);
    free(x);
}

// Which of the batch's vertices it is, in the order in which it names them.
LOOP_TEST(a_vertex_of_another_type_is_named_by_its_place, 0, 2)
{
    const struct shape shape = {FEWEST, 9000};
    float *x = fixture_alloc((uint64_t)shape.n * DIM * sizeof *x);
    make_table(shape.n_rows, SL_DTYPE_F32);
    choose(&shape, shape.n);
    vertices[4321] = _i ? FIRST - 1 : FIRST + shape.n_rows;
    ck_assert_int_eq(
        sl_rows_copy_of(&source, 1, sl_kernels_cpu(), vertices, NULL, shape.n, shape.n, x),
        SL_ERANGE);
    ck_assert_msg(strstr(sl_error_message(), "4321"), "%s", sl_error_message());
    free(x);
}

RUN_TESTS()
