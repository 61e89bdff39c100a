/*
 * import.h - what importers share: options, the directory under construction, the way from the
 * edges that were read to the topology files, the summary.
 */
#ifndef SL_BROKER_CLI_IMPORT_H
#define SL_BROKER_CLI_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/cli/csc_writer.h"
#include "broker/cli/edge_intake.h"
#include "broker/cli/metadata.h"
#include "broker/cli/options.h"
#include "broker/cli/progress.h"
#include "broker/cli/staging.h"
#include "broker/cli/table.h"
#include "broker/cli/text_reader.h"

// Ids 0 to 2^32 - 3; 2^32 - 1 stays free and num_nodes is below it.
#define SL_IMPORT_MAX_ID UINT32_C(4294967293)

struct sl_import {
    // Options.
    const char *source, *out, *name;
    bool force, quiet;
    int output; // enum sl_output
    bool symmetrise, dedup, remove_self_loops, add_self_loops;
    uint64_t memory_bytes;
    const char *split; // NULL = the source's own
    double split_share[3];
    uint64_t seed; // of the split
    bool normalise_features, half_features;

    // While it runs.
    struct sl_staging st;
    struct sl_progress progress;
    struct sl_edge_intake intake;
    struct sl_csc_summary csc;
    uint64_t begin_ns;
    bool drawing_split; // lists of the source are over
};

enum { SL_IMPORT_COMMON_OPTIONS = 12, SL_IMPORT_FEATURE_OPTIONS = 2, SL_IMPORT_MAX_OPTIONS = 20 };

// The memory is the caller's; large, so not for the stack.
void sl_import_init(struct sl_import *im);
size_t sl_import_common_options(struct sl_import *im, struct sl_option *options);
// Those of formats with features, for options[n ..]; returns the new n.
size_t sl_import_feature_options(struct sl_import *im, struct sl_option *options, size_t n);

// What the table can not check; `command` as in "import npz". After sl_options_parse.
int sl_import_check_options(struct sl_import *im, const char *command);

/*
 * Runs an import: makes the directory, calls read() and, when that succeeded, renames it and
 * prints the table that summarise() completes. Returns as a command does.
 */
int sl_import_execute(struct sl_import *im, void *context,
                      int (*read)(struct sl_import *im, void *context),
                      void (*summarise)(struct sl_import *im, void *context, struct sl_table *t));

// Starts the sort behind im->intake (whose `weighted` and so on are set).
int sl_import_start_edges(struct sl_import *im);

// Sorts and writes the topology, renumbered by `map` when there is one.
int sl_import_finish_edges(struct sl_import *im, uint64_t n_nodes, struct sl_id_map *map);

// A stage of the progress display that follows a reader.
void sl_import_begin_stage(struct sl_import *im, const char *what, const struct sl_text_reader *r);

int sl_import_edgelist(int argc, char **argv);
int sl_import_graphbolt(int argc, char **argv);
int sl_import_igb(int argc, char **argv);
int sl_import_npz(int argc, char **argv);
int sl_import_ogb(int argc, char **argv);

#endif
