// `sluice reorder`: dataset/reorder.h as a command.

#include "cli/command.h"
#include "cli/dataset_command.h"
#include "common/base/error.h"
#include "dataset/reorder.h"
#include "dataset/vertex_blocks.h"

struct request {
    struct sl_reorder reorder;
    const char *fanout;
    bool fanout_given;
    int output;
};

static int reorder(void *state)
{
    struct request *q = state;
    struct sl_reorder *r = &q->reorder;
    if (q->fanout_given && !sl_reorder_samples(r->by))
        return sl_fail(SL_EINVAL,
                       "reorder: --fanout with --by %s: only hotness and reads depend on it",
                       sl_reorder_kinds[r->by]);
    SL_TRY(sl_batch_estimate_parse("reorder", q->fanout, &r->hops));
    SL_TRY(sl_reorder_run(r));
    return sl_dataset_command_print(&r->making, q->output);
}

static void release(void *state)
{
    sl_dataset_builder_fini(&((struct request *)state)->reorder.making);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
#define GIVEN(field)    SL_OPTION_GIVEN(request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "by", AT(CHOICE, reorder.by), .choices = sl_reorder_kinds,
     .help = "degree: by falling out-degree; hotness: by falling number of visits expected of "
             "sampling from the training vertices; reads: by falling number of reads of an entry "
             "of their lists, for GPUs that have room for a part of the graph; bfs: breadth "
             "first along in-edges from the vertex with most of them"},
    {.name = "out", AT(TEXT, reorder.making.out), .placeholder = "DIR2", .required = true,
     .help = "the data set directory to make"},
    {.name = "fanout", AT(TEXT, fanout), .placeholder = "LIST", GIVEN(fanout_given),
     .help = "of --by hotness or reads: the job's, from the seeds outwards; -1: all neighbours"},
    {.name = "name", AT(TEXT, reorder.making.name), .placeholder = "NAME",
     .help = "its name in metadata.json, else DIR2's last part"},
    {.name = "force", AT(FLAG, reorder.making.force), .help = "replace a data set of that name"},
    {.name = "threads", AT(UINT, reorder.n_threads), .placeholder = "N", .min = 1,
     .max = SL_VERTEX_THREADS_MAX, .no_default = true,
     .help = "threads that move arrays, else one a core; the files are the same"},
    {0},
};
// clang-format on

const struct sl_command sl_command_reorder = {
    .name = "reorder",
    .help = "number a data set's vertices anew, for locality",
    .about =
        "Writes the data set DIR again with its vertices numbered in another order: rows that "
        "are used often or together then lie together. Edges, weights, features, labels and "
        "index lists are permuted alike; vertex_map.npy keeps the id that each vertex had in "
        "DIR (or in what DIR was reordered from), and predictions come out in that order. In a "
        "graph of several types each type keeps its range of ids.",
    .example = "sluice reorder data/web --by hotness --fanout 15,10,5 --out data/web-hot\n"
               "sluice reorder data/web --by bfs --out data/web-bfs",
    .operands = {{"DIR", offsetof(struct request, reorder.source)}},
    .options = {{options},
                {sl_dataset_command_quiet, offsetof(struct request, reorder.making)},
                {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.fanout = "15,10,5"},
    .run = reorder,
    .fini = release,
};
