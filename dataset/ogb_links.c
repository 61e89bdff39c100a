#include "dataset/ogb_links.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/text/units.h"
#include "dataset/pair_sink.h"

static const char *const split_names[SL_SPLIT_COUNT] = {"train", "validation", "test"};

struct part {
    struct sl_import *im;
    const struct sl_torch_file *t;
    const char *file, *group;
    int split;
    uint64_t n_nodes;
    struct sl_ogb_links *out;
};

static enum sl_dataset_file file_of(const struct part *p, enum sl_dataset_file first)
{
    return (enum sl_dataset_file)((int)first + p->split);
}

static bool has(const struct part *p, const char *key)
{
    return sl_torch_what(p->t, p->group, key) != SL_TORCH_NOTHING;
}

static int fail_keys(const struct part *p)
{
    char keys[256];
    sl_torch_keys(p->t, p->group, NULL, keys, sizeof keys);
    if (has(p, "relation"))
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: edges are of several kinds (head, relation, tail), as those of "
                       "ogbl-wikikg2 and ogbl-biokg: wanted a graph with one kind: to leave the "
                       "kinds out, give raw/edge.csv.gz to `sluice import edgelist --holdout "
                       "0.05,0.1`",
                       p->file);
    return sl_fail(SL_EFORMAT,
                   "import %s: found %s: wanted edge, or source_node and target_node: the pairs of "
                   "a link property prediction data set",
                   p->file, keys[0] ? keys : "no arrays");
}

static int read_pairs(const struct part *p, const char *key, enum sl_dataset_file first,
                      uint64_t *n)
{
    struct sl_array_reader *r;
    SL_TRY(sl_torch_open_array(p->t, p->group, key, &r));
    int rc = sl_pair_sink_put(p->im, file_of(p, first), r, p->n_nodes, n);
    sl_array_close(r);
    return rc;
}

static int read_sides(const struct part *p, uint64_t *n)
{
    struct sl_array_reader *sources, *targets = NULL;
    SL_TRY(sl_torch_open_array(p->t, p->group, "source_node", &sources));
    int rc = sl_torch_open_array(p->t, p->group, "target_node", &targets);
    if (rc == SL_OK)
        rc = sl_pair_sink_put_sides(p->im, file_of(p, SL_FILE_TRAIN_EDGES), sources, targets,
                                    p->n_nodes, n);
    sl_array_close(sources);
    sl_array_close(targets);
    return rc;
}

static int read_weights(const struct part *p)
{
    struct sl_array_reader *r;
    if (!has(p, "weight") || !p->im->weights)
        return SL_OK;
    p->out->weighted = true;
    SL_TRY(sl_torch_open_array(p->t, p->group, "weight", &r));
    int rc = sl_pair_sink_put_weights(p->im, file_of(p, SL_FILE_TRAIN_EDGE_WEIGHT), r,
                                      p->out->n[p->split]);
    sl_array_close(r);
    return rc;
}

static int read_targets(const struct part *p)
{
    struct sl_array_reader *r;
    SL_TRY(sl_torch_open_array(p->t, p->group, "target_node_neg", &r));
    uint32_t *k = &p->out->per_positive[p->split];
    int rc = sl_pair_sink_put_targets(p->im, file_of(p, SL_FILE_TRAIN_NEG_TARGET), r, p->n_nodes,
                                      p->out->n[p->split], k);
    p->out->n_negatives[p->split] = p->out->n[p->split] * *k;
    sl_array_close(r);
    return rc;
}

static int read_part(const struct part *p)
{
    uint64_t *n = &p->out->n[p->split], *n_negatives = &p->out->n_negatives[p->split];
    if (has(p, "edge"))
        SL_TRY(read_pairs(p, "edge", SL_FILE_TRAIN_EDGES, n));
    else if (has(p, "source_node") && has(p, "target_node"))
        SL_TRY(read_sides(p, n));
    else
        return fail_keys(p);
    SL_TRY(read_weights(p));
    if (has(p, "edge_neg"))
        return read_pairs(p, "edge_neg", SL_FILE_TRAIN_NEG, n_negatives);
    return has(p, "target_node_neg") ? read_targets(p) : SL_OK;
}

int sl_ogb_links_read(struct sl_import *im, const struct sl_torch_file *t, const char *file,
                      const char *group, enum sl_split split, uint64_t n_nodes,
                      struct sl_ogb_links *out)
{
    static const char *const used[] = {"edge",     "source_node",     "target_node", "weight",
                                       "edge_neg", "target_node_neg", NULL};
    const struct part p = {im, t, file, group, (int)split, n_nodes, out};
    char left[256];
    SL_TRY(read_part(&p));
    if (*sl_torch_keys(t, group, used, left, sizeof left))
        sl_import_leave_out(im, "%s of the %s edges", left, split_names[split]);
    return SL_OK;
}

void sl_ogb_links_summarise(const struct sl_ogb_links *l, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    sl_table_row(t, "pairs|%s train, %s validation, %s test%s",
                 sl_units_grouped(a, l->n[SL_SPLIT_TRAIN]), sl_units_grouped(b, l->n[SL_SPLIT_VAL]),
                 sl_units_grouped(c, l->n[SL_SPLIT_TEST]), l->weighted ? ", with weights" : "");
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (l->n_negatives[s] && l->per_positive[s])
            sl_table_row(t, "%s negatives|%" PRIu32 " targets for each pair", split_names[s],
                         l->per_positive[s]);
        else if (l->n_negatives[s])
            sl_table_row(t, "%s negatives|%s pairs", split_names[s],
                         sl_units_grouped(a, l->n_negatives[s]));
}
