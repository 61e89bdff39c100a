// inspect_labels.h - what `sluice inspect` says of the labels of a data set, by its task.
#ifndef SL_CLI_INSPECT_LABELS_H
#define SL_CLI_INSPECT_LABELS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/text/table.h"
#include "common/data/dataset.h"

// Of a class, a label or a number of the target.
struct sl_label_column {
    uint64_t known;    // vertices of which it is known
    uint64_t positive; // ... that have it (not of numbers)
    double min, max, mean;
    double squares; // sum of the squared distances from the mean
};

struct sl_label_summary {
    enum sl_task task; // NONE where there are no labels
    uint32_t n;        // columns
    uint64_t n_nodes;
    uint64_t n_unlabelled; // vertices of which nothing is known
    uint64_t n_positive;   // of all labels together
    struct sl_label_column *column;
};

// One pass over the labels. SL_ENOMEM.
int sl_label_summary_make(struct sl_label_summary *s, const struct sl_dataset *ds);
void sl_label_summary_fini(struct sl_label_summary *s); // safe on a zeroed struct

// One row of the overview (columns "what|how much").
void sl_label_summary_row(const struct sl_label_summary *s, struct sl_table *overview);
// A table of the first classes, labels or numbers; nothing without labels.
void sl_label_summary_print(const struct sl_label_summary *s);
void sl_label_summary_to_json(const struct sl_label_summary *s, cJSON *root);

#endif
