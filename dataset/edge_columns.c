#include "dataset/edge_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "dataset/import.h"
#include "dataset/line_scan.h"

enum { SOURCE, TARGET, WEIGHT, TIME, PARTS };
enum { OPTION_BYTES = 512 };

static const char *const parts[PARTS] = {"source", "target", "weight", "time"};

void sl_edge_columns_drop_weight(struct sl_edge_columns *c)
{
    c->weight = -1;
    c->n_most = SL_FIELDS_MAX;
}

int sl_edge_columns_width(const struct sl_edge_columns *c)
{
    // One more than allowed tells whether there are too many.
    int last = SL_MAX(SL_MAX(c->source, c->target), c->weight);
    return c->n_most == SL_FIELDS_MAX ? last + 1 : c->n_most + 1;
}

static int fail_time(const struct sl_import *im)
{
    return sl_fail(SL_EFORMAT,
                   "import %s: line %" PRIu64 ": found no time: with --by-time and --times wanted "
                   "'source target [weight] time', or --columns SOURCE,TARGET,TIME",
                   im->source, im->line);
}

int sl_edge_columns_default(const struct sl_import *im, bool has_time,
                            const struct sl_line_fields *line, struct sl_edge_columns *out)
{
    int n = line->n;
    if (n > 2 && line->at[n - 1].n == 0)
        n--; // a separator at the end of the line
    if (n > 4 || (n == 4 && !has_time))
        return sl_fail(SL_EFORMAT,
                       "import %s: line %" PRIu64 ": found %s%d columns: wanted 'source target "
                       "[weight]', or --columns: 1,2 reads no weights, 1,2,3 takes them from the "
                       "third column, 1,3 has the targets there",
                       im->source, im->line, n == line->most ? "at least " : "", n);
    if (im->timed && n < 3)
        return fail_time(im);
    *out = (struct sl_edge_columns){0, 1, n <= 2 ? -1 : im->timed ? n - 1 : 2, SL_MAX(n, 2)};
    return SL_OK;
}

// ---- --columns ----------------------------------------------------------------------------------

static int fail_option(const char *option, const char *why)
{
    return sl_fail(SL_EINVAL,
                   "import edgelist: --columns '%s': %s: wanted SOURCE,TARGET[,WEIGHT], each the "
                   "number of a column from 1 or its name in a heading row",
                   option, why);
}

// The number of a column from 1 as its place; -1: it is a name.
static int number_of(const struct sl_line_field *f)
{
    uint64_t x = 0;
    bool fits = false;
    const char *end = f->n ? sl_line_scan_uint(f->text, &x, &fits) : NULL;
    return end == f->text + f->n && fits && x >= 1 && x <= SL_FIELDS_MAX - 2 ? (int)x - 1 : -1;
}

static bool is_digits(const struct sl_line_field *f)
{
    size_t n = 0;
    while (n < f->n && f->text[n] >= '0' && f->text[n] <= '9')
        n++;
    return n == f->n;
}

// The place of a name among the fields of a line; -1: it is not there.
static int find_name(const struct sl_line_fields *line, const struct sl_line_field *name)
{
    for (int i = 0; i < line->n; i++)
        if (line->at[i].n == name->n && memcmp(line->at[i].text, name->text, name->n) == 0)
            return i;
    return -1;
}

static int fail_name(const struct sl_import *im, const struct sl_line_fields *line,
                     const struct sl_line_field *name)
{
    char names[256] = "";
    for (int i = 0; i < line->n && strlen(names) < sizeof names - 48; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 (int)SL_MIN(line->at[i].n, (size_t)32), line->at[i].text);
    sl_utf8_clean(names);
    return sl_fail(SL_EFORMAT,
                   "import %s: line %" PRIu64 ": --columns: found no column '%.*s' in '%s': wanted "
                   "a heading row with that name, or numbers, as in --columns 1,2",
                   im->source, im->line, (int)SL_MIN(name->n, (size_t)64), name->text, names);
}

// Whether the option says, in order, what the columns of a file without a heading row are.
static bool says_parts(const struct sl_line_fields *given)
{
    for (int i = 0; i < given->n; i++)
        if (!sl_field_is(&given->at[i], parts[i]) &&
            !(i == WEIGHT && given->n == 3 && sl_field_is(&given->at[i], parts[TIME])))
            return false;
    return true;
}

static int find_places(const struct sl_import *im, const struct sl_line_fields *given,
                       const struct sl_line_fields *line, int place[PARTS], bool *is_heading)
{
    const struct sl_line_field *missing = NULL;
    int n_found = 0, n_numbers = 0;
    for (int i = 0; i < given->n; i++) {
        int number = number_of(&given->at[i]), found = find_name(line, &given->at[i]);
        n_numbers += number >= 0;
        n_found += found >= 0;
        missing = found < 0 && !missing ? &given->at[i] : missing;
        place[i] = number >= 0 ? number : found;
    }
    *is_heading = n_numbers < given->n && !missing;
    if (n_numbers == given->n || *is_heading)
        return SL_OK;
    if (n_found > 0 || !says_parts(given))
        return fail_name(im, line, missing);
    for (int i = 0; i < given->n; i++)
        place[i] = i;
    return SL_OK;
}

// The parts of the option, which point into `text`.
static int split_option(const char *option, char text[OPTION_BYTES], struct sl_line_fields *given)
{
    const char *end;
    *given = (struct sl_line_fields){.separator = ',', .most = PARTS + 1};
    if (snprintf(text, OPTION_BYTES, "%s\n", option) >= OPTION_BYTES || strchr(option, '\n'))
        return fail_option(option, "it is too long");
    int rc = sl_line_fields_split(given, text, &end);
    if (rc == SL_EFORMAT)
        return fail_option(option, "a quote is not closed");
    if (rc == SL_OK && (given->n < 2 || given->n > PARTS))
        return fail_option(option, given->n < 2 ? "it is one column" : "it is too many columns");
    for (int i = 0; i < given->n && rc == SL_OK; i++)
        if (is_digits(&given->at[i]) && number_of(&given->at[i]) < 0)
            rc = fail_option(option, "it has a number that no column has");
    return rc;
}

int sl_edge_columns_check(const char *option)
{
    char text[OPTION_BYTES];
    struct sl_line_fields given;
    int rc = split_option(option, text, &given);
    sl_line_fields_fini(&given);
    return rc;
}

int sl_edge_columns_choose(const struct sl_import *im, const char *option,
                           const struct sl_line_fields *line, struct sl_edge_columns *out,
                           bool *is_heading)
{
    char text[OPTION_BYTES];
    int place[PARTS] = {-1, -1, -1, -1};
    struct sl_line_fields given;
    int rc = split_option(option, text, &given);
    if (rc == SL_OK)
        rc = find_places(im, &given, line, place, is_heading);
    for (int i = 0; i < given.n && rc == SL_OK; i++)
        for (int k = 0; k < i && rc == SL_OK; k++)
            if (place[i] == place[k])
                rc = fail_option(option, "it has a column twice");
    // A time in the place of the weight is none.
    bool weighted = given.n > 2 && !(given.n == 3 && sl_field_is(&given.at[WEIGHT], parts[TIME]));
    int value = im->timed && given.n > 2 ? place[given.n - 1] : weighted ? place[WEIGHT] : -1;
    if (rc == SL_OK && im->timed && value < 0)
        rc = fail_time(im);
    *out = (struct sl_edge_columns){place[SOURCE], place[TARGET], value, SL_FIELDS_MAX};
    sl_line_fields_fini(&given);
    return rc;
}
