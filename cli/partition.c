// `sluice partition`: partition/partition.h as a command.
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

#include "broker/rundir/rundir.h"
#include "cli/command.h"
#include "cli/output.h"
#include "common/base/error.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "partition/partition.h"

struct request {
    struct sl_partition making;
    const char *fanout;
    int output;
};

static double share(uint64_t n, uint64_t of)
{
    return of ? (double)n / (double)of : 0;
}

// How much the fullest part has, the mean being 1.
static double fullness(const struct sl_parts_spread *s, uint32_t n_parts)
{
    return share(s->fullest * n_parts, s->n);
}

static bool is_even(const struct sl_partition *p)
{
    return p->vertices.is_even && p->training.is_even;
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_spread(cJSON *o, const char *name, const struct sl_parts_spread *s,
                       uint32_t n_parts)
{
    cJSON *to = cJSON_AddObjectToObject(o, name);
    cJSON_AddNumberToObject(to, "all", (double)s->n);
    cJSON_AddNumberToObject(to, "fullest", (double)s->fullest);
    cJSON_AddNumberToObject(to, "least", (double)s->least);
    cJSON_AddNumberToObject(to, "empty_parts", s->n_empty);
    cJSON_AddNumberToObject(to, "balance", fullness(s, n_parts));
    cJSON_AddBoolToObject(to, "even", s->is_even);
}

static void add_rows(cJSON *o, const struct sl_partition *p)
{
    const struct sl_remote_rows *r = &p->rows;
    cJSON *rows = cJSON_AddObjectToObject(o, "rows"), *fanout;
    fanout = cJSON_AddArrayToObject(rows, "fanout");
    for (uint32_t i = 0; i < p->hops.n_hops; i++)
        cJSON_AddItemToArray(fanout, cJSON_CreateNumber((double)p->hops.fanout[i]));
    cJSON_AddNumberToObject(rows, "batch_size", (double)p->hops.batch_size);
    cJSON_AddNumberToObject(rows, "batches", (double)r->n_batches);
    cJSON_AddNumberToObject(rows, "all", (double)r->rows);
    cJSON_AddNumberToObject(rows, "remote", (double)r->remote);
    cJSON_AddNumberToObject(rows, "remote_bytes", (double)r->remote_bytes);
    cJSON_AddNumberToObject(rows, "remote_share", share(r->remote, r->rows));
    cJSON_AddNumberToObject(rows, "random_share",
                            sl_remote_rows_at_random(r, p->n_parts, p->n_rows));
    cJSON_AddNumberToObject(rows, "row_bytes", (double)p->row_bytes);
}

static void add_place(cJSON *o, const struct sl_partition *p)
{
    const struct sl_shards *s = &p->shards;
    char digest[24];
    if (!sl_partition_spreads(p->out)) {
        cJSON_AddStringToObject(o, "file", p->path);
        return;
    }
    cJSON *to = cJSON_AddObjectToObject(o, "shards");
    snprintf(digest, sizeof digest, "%016" PRIx64, s->digest);
    cJSON_AddStringToObject(to, "directory", p->path);
    cJSON_AddStringToObject(to, "digest", digest);
    cJSON_AddNumberToObject(to, "bytes", (double)s->bytes);
    cJSON_AddNumberToObject(to, "linked", (double)(s->shared.n_files - s->shared.n_copied));
    cJSON_AddNumberToObject(to, "copied", (double)s->shared.n_copied);
    if (s->shared.why[0])
        cJSON_AddStringToObject(to, "why_copied", s->shared.why);
}

static int print_json(const struct sl_partition *p)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.partition/1");
    add_place(o, p);
    cJSON_AddNumberToObject(o, "parts", p->n_parts);
    cJSON_AddStringToObject(o, "method", sl_partition_methods[p->used]);
    if (p->why[0])
        cJSON_AddStringToObject(o, "why", p->why);
    cJSON_AddNumberToObject(o, "imbalance", p->slack);
    cJSON_AddBoolToObject(o, "even", is_even(p));
    add_spread(o, "vertices", &p->vertices, p->n_parts);
    add_spread(o, "training", &p->training, p->n_parts);
    cJSON_AddNumberToObject(o, "filled", p->n_filled);
    cJSON_AddNumberToObject(o, "edges", (double)p->n_edges);
    cJSON_AddNumberToObject(o, "cut", (double)p->n_cut);
    cJSON_AddNumberToObject(o, "cut_share", share(p->n_cut, p->n_edges));
    add_rows(o, p);
    cJSON_AddNumberToObject(o, "method_cpu_seconds", p->cpu_seconds);
    cJSON_AddNumberToObject(o, "seconds", p->seconds);
    cJSON_AddNumberToObject(o, "peak_bytes", (double)p->peak_bytes);
    return sl_output_json_line(o, "the partition");
}

// ---- text ---------------------------------------------------------------------------------------

static void add_spread_row(struct sl_table *t, const char *what, const struct sl_parts_spread *s,
                           const struct sl_partition *p)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    sl_table_row(t, "%s|%s to %s a part of %s, the fullest %.2f of the mean", what,
                 sl_units_grouped(a, s->least), sl_units_grouped(b, s->fullest),
                 sl_units_grouped(c, s->n), fullness(s, p->n_parts));
    if (s->n_empty)
        sl_table_row(t, "|%s without any", SL_PLURAL(s->n_empty, "part"));
    if (!s->is_even)
        sl_table_row(t, "|not as even as asked for: %.3g more than the mean at most (--imbalance)",
                     p->slack);
}

static void add_row_rows(struct sl_table *t, const struct request *q)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_partition *p = &q->making;
    const struct sl_remote_rows *r = &p->rows;
    sl_table_row(t, "remote rows|%.1f %% of a batch's, of random parts %.1f %%",
                 100 * share(r->remote, r->rows),
                 100 * sl_remote_rows_at_random(r, p->n_parts, p->n_rows));
    const double each = share(r->remote, r->n_batches),
                 bytes = share(r->remote_bytes, r->n_batches);
    sl_table_row(t, "|%s a batch%s%s (mean of %s, fanout %s, %s)", sl_units_whole(a, each),
                 bytes > 0 ? ", " : "", bytes > 0 ? sl_units_bytes(b, bytes) : "",
                 SL_PLURAL((double)r->n_batches, "batch"), q->fanout,
                 SL_PLURAL((double)p->hops.batch_size, "seed"));
    sl_table_row(t, "|of one part's vertices, as the job's order.kind \"parts\" makes them");
}

static void print_place(struct sl_table *t, const struct sl_partition *p)
{
    char a[SL_UNITS_BYTES];
    const struct sl_shards *s = &p->shards;
    if (!sl_partition_spreads(p->out)) {
        sl_table_row(t, "partition|%s", p->path);
        return;
    }
    sl_table_row(t, "shards|%s/0 to %u, digest %016" PRIx64, p->path, p->n_parts - 1, s->digest);
    sl_table_row(t, "|%s written; of what all have, %s linked, %" PRIu64 " copied%s%s",
                 sl_units_bytes(a, (double)s->bytes),
                 SL_PLURAL((double)(s->shared.n_files - s->shared.n_copied), "file"),
                 s->shared.n_copied, s->shared.why[0] ? ": " : "", s->shared.why);
}

static void print_text(const struct request *q)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_partition *p = &q->making;
    struct sl_table t;
    sl_table_init(&t, "l l", NULL);
    print_place(&t, p);
    sl_table_row(&t, "parts|%u", p->n_parts);
    sl_table_row(&t, "method|%s", sl_partition_method_texts[p->used]);
    if (p->why[0])
        sl_table_row(&t, "|%s", p->why);
    add_spread_row(&t, "vertices", &p->vertices, p);
    if (p->n_filled)
        sl_table_row(&t, "|%s had none and got one", SL_PLURAL(p->n_filled, "part"));
    add_spread_row(&t, "training", &p->training, p);
    if (p->row_bytes)
        sl_table_row(&t, "features|%s to %s a part",
                     sl_units_bytes(a, (double)(p->vertices.least * p->row_bytes)),
                     sl_units_bytes(b, (double)(p->vertices.fullest * p->row_bytes)));
    sl_table_row(&t, "edges cut|%.1f %% of %s", 100 * share(p->n_cut, p->n_edges),
                 sl_units_grouped(a, p->n_edges));
    add_row_rows(&t, q);
    sl_table_row(&t, "took|%s, %s of memory at most", sl_units_seconds(a, p->seconds),
                 sl_units_bytes(b, (double)p->peak_bytes));
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static int partition(void *state)
{
    struct request *q = state;
    struct sl_partition *p = &q->making;
    SL_TRY(sl_batch_estimate_parse("partition", q->fanout, &p->hops));
    if (p->out && !sl_partition_spreads(p->out))
        SL_TRY(sl_rundir_check_file(p->out, "--out"));
    SL_TRY(sl_partition_make(p));
    if (q->output == SL_OUTPUT_JSON)
        return print_json(p);
    if (!p->quiet)
        print_text(q);
    return SL_EXIT_OK;
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "parts", AT(UINT, making.n_parts), .placeholder = "N", .required = true, .min = 2,
     .max = SL_PARTITION_PARTS_MAX, .no_default = true, .help = "parts, one for each node"},
    {.name = "out", AT(TEXT, making.out), .placeholder = "FILE.npy|DIR2",
     .help = "the file to write, else node_part.npy in DIR; or a directory to make, of N shards: "
             "data sets DIR2/0, DIR2/1, ... with the features of one part each"},
    {.name = "topology", AT(CHOICE, making.shards.topology), .choices = sl_shards_topologies,
     .help = "how shards get files that all of them have. link: hard links to the files of DIR, "
             "copies where links cannot be made; copy: for directories that move to other drives"},
    {.name = "method", AT(CHOICE, making.method), .choices = sl_partition_methods,
     .help = "auto: metis where it is installed and memory suffices, else stream; metis: recursive "
             "bisection, vertices and training vertices even; metis-kway: fewer edges cut, "
             "vertices even; stream: passes over the file with memory for vertices alone; random: "
             "to compare with; given: those of --from"},
    {.name = "from", AT(TEXT, making.from), .placeholder = "FILE.npy",
     .help = "of --method given: the part of each vertex, as this command or another program wrote "
             "it, to see what it is worth or to make shards by it"},
    {.name = "imbalance", AT(REAL, making.slack), .placeholder = "SHARE", .min = 0.001, .max = 10,
     .help = "how much fuller than the mean a part may be"},
    {.name = "fanout", AT(TEXT, fanout), .placeholder = "LIST",
     .help = "of the batches that remote rows are counted on, as the job's: from the seeds "
             "outwards; -1: all neighbours"},
    {.name = "batch", AT(UINT, making.hops.batch_size), .placeholder = "N", .min = 1,
     .max = 4294967294.0, .help = "their seeds"},
    {.name = "seed", AT(UINT, making.seed), .placeholder = "N",
     .help = "of these batches and of --method random"},
    {.name = "force", AT(FLAG, making.force),
     .help = "replace the file, or the data set or shards of that name"},
    {.name = "quiet", .letter = 'q', AT(FLAG, making.quiet), .help = "no progress and no summary"},
    {0},
};
// clang-format on

const struct sl_command sl_command_partition = {
    .name = "partition",
    .help = "put a data set's vertices into parts, few edges between them",
    .about =
        "Writes for each vertex of the data set DIR in which of N parts it is, and says what "
        "that is worth: how many of a mini-batch's rows would come from other parts, counted "
        "on drawn batches whose seeds are training vertices of one part. With --out DIR2 it also "
        "writes a data set for each node of a job on several, which has the whole graph and "
        "the features of its own part.",
    .example = "sluice partition data/web --parts 4\n"
               "sluice partition data/web --parts 4 --method stream --fanout 10,10 --out web4.npy\n"
               "sluice partition data/web --parts 4 --out data/web4",
    .operands = {{"DIR", offsetof(struct request, making.dataset)}},
    .options = {{options}, {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .defaults =
        &(const struct request){
            .fanout = "15,10,5",
            .making = {.slack = 0.03, .hops.batch_size = 1024, .seed = 1},
        },
    .run = partition,
};
