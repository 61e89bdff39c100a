// `sluice stripe`: dataset/stripe.h as a command.
#include <cjson/cJSON.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/output.h"
#include "common/base/error.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "dataset/stripe.h"

struct request {
    struct sl_stripe_making making;
    struct sl_text_list to;
    int output;
};

static int print_json(const struct sl_stripe_making *m)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.stripe/1");
    cJSON_AddNumberToObject(o, "seconds", m->seconds);
    cJSON *types = m->made[0].type[0] ? cJSON_AddObjectToObject(o, "types") : NULL;
    for (uint32_t k = 0; k < m->n_made; k++) {
        const struct sl_stripes *s = &m->made[k].stripes;
        cJSON *of = types ? cJSON_AddObjectToObject(types, m->made[k].type) : o;
        cJSON_AddNumberToObject(of, "unit_bytes", (double)s->unit_bytes);
        cJSON *files = cJSON_AddArrayToObject(of, "files");
        for (uint32_t i = 0; i < s->n; i++)
            cJSON_AddItemToArray(files, cJSON_CreateString(s->file[i].path));
    }
    return sl_output_json_line(o, "the files");
}

static void print_text(const struct sl_stripe_making *m)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const bool typed = m->made[0].type[0];
    struct sl_table t;
    sl_table_init(&t, "l l l", NULL);
    for (uint32_t k = 0; k < m->n_made; k++) {
        const struct sl_stripes *s = &m->made[k].stripes;
        for (uint32_t i = 0; i < s->n; i++)
            sl_table_row(&t, "%s|%s|units of %s", s->file[i].path,
                         sl_units_bytes(a, sl_stripes_file_bytes(s, i)),
                         sl_units_bytes(b, s->unit_bytes));
    }
    sl_table_print(&t, stdout);
    printf("features are read from these; made in %s. node_feat%s.npy, if there is one, is not "
           "read any more and may go.\n",
           sl_units_seconds(b, m->seconds), typed ? ".TYPE" : "");
}

static int stripe(void *state)
{
    struct request *q = state;
    q->making.to = q->to.items;
    q->making.n = (uint32_t)q->to.n;
    SL_TRY(sl_stripe_make(&q->making));
    if (q->output == SL_OUTPUT_JSON)
        return print_json(&q->making);
    if (!q->making.quiet)
        print_text(&q->making);
    return SL_EXIT_OK;
}

static void release(void *state)
{
    sl_stripe_making_fini(&((struct request *)state)->making);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "to", AT(LIST, to), .placeholder = "DIR", .required = true,
     .help = "a directory on a drive of its own; once for each"},
    {.name = "unit", AT(SIZE, making.unit_bytes), .placeholder = "BYTES", .min = 4096,
     .max = 1099511627776.0,
     .help = "bytes that lie in one file, at least, before the next one's turn"},
    {.name = "force", AT(FLAG, making.force), .help = "replace files of these names"},
    {.name = "quiet", .letter = 'q', AT(FLAG, making.quiet), .help = "show nothing but errors"},
    {.name = "output", .letter = 'o', AT(CHOICE, output), .choices = sl_output_names,
     .help = "how to print"},
    {0},
};
// clang-format on

const struct sl_command sl_command_stripe = {
    .name = "stripe",
    .help = "deal a data set's features out to several drives",
    .about = "Writes the features of the data set DIR into one file in each directory of --to, "
             "which take turns, and names them in its metadata.json; of a graph of several types "
             "one for each type. Jobs then read rows from all of these drives at the same time "
             "(store.features). Nothing else changes, and node_feat.npy, or node_feat.TYPE.npy, "
             "stays where it is.",
    .example = "sluice stripe data/papers --to /srv/a --to /srv/b --to /srv/c",
    .operands = {{"DIR", offsetof(struct request, making.dataset)}},
    .options = {{options}},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.making.unit_bytes = 64 << 20},
    .run = stripe,
    .fini = release,
};
