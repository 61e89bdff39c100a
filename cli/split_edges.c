// `sluice split-edges`: dataset/edge_split.h as a command.

#include "cli/command.h"
#include "cli/dataset_command.h"
#include "common/base/error.h"
#include "dataset/edge_split.h"
#include "dataset/vertex_blocks.h"

struct request {
    struct sl_edge_split split;
    int output;
};

static int split_edges(void *state)
{
    struct request *q = state;
    SL_TRY(sl_edge_split_run(&q->split));
    return sl_dataset_command_print(&q->split.making, q->output);
}

static void release(void *state)
{
    sl_dataset_builder_fini(&((struct request *)state)->split.making);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "relation", AT(TEXT, split.relation), .placeholder = "NAME",
     .help = "of a graph of several types: whose edges are held out, such as \"author -writes-> "
             "paper\", or \"writes\" where no other has the name"},
    {.name = "val", AT(REAL, split.val), .placeholder = "SHARE", .min = 0, .max = 1,
     .help = "of the pairs, for validation: val_edges.npy"},
    {.name = "test", AT(REAL, split.test), .placeholder = "SHARE", .min = 0, .max = 1,
     .help = "of the pairs, for the test: test_edges.npy"},
    {.name = "seed", AT(UINT, split.seed), .placeholder = "N",
     .help = "of the draw; the same pairs for any order of the files, and a larger share of the "
             "test has all pairs of a smaller one"},
    {.name = "pairs", AT(CHOICE, split.pairs), .choices = sl_edge_split_pairs,
     .help = "undirected: an edge and its reverse are held out together; directed: an edge by "
             "itself; auto: undirected where each edge has its reverse, of a relation where "
             "metadata.json says which one has the reverses"},
    {.name = "keep-one", AT(FLAG, split.keep_one),
     .help = "no vertex loses its last edge: of each vertex one pair stays"},
    {.name = "threads", AT(UINT, split.n_threads), .placeholder = "N", .min = 1,
     .max = SL_VERTEX_THREADS_MAX, .no_default = true,
     .help = "threads that read and write, else one a core; the files are the same"},
    {0},
};
// clang-format on

const struct sl_command sl_command_split_edges = {
    .name = "split-edges",
    .help = "hold out edges of a data set, for models of links",
    .about = "Writes the data set --out: the graph of DIR without the edges that are held out, and "
             "these as pairs (source, target) in val_edges.npy and test_edges.npy. Edges that join "
             "the same two vertices go together, self-loops stay. Weights and edge_*.npy lose the "
             "same rows; all other arrays are those of DIR, by hard links where these can be made.",
    .example = "sluice split-edges data/collab --out data/collab-links\n"
               "sluice split-edges data/web --val 0.01 --test 0.02 --pairs directed --keep-one "
               "--out data/web-links",
    .operands = {{"DIR", offsetof(struct request, split.source)}},
    .options = {{sl_dataset_command_place, offsetof(struct request, split.making)},
                {options},
                {sl_dataset_command_quiet, offsetof(struct request, split.making)},
                {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.split = {.val = 0.05, .test = 0.1, .seed = 1}},
    .run = split_edges,
    .fini = release,
};
