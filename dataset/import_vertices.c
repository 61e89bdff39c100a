#include "dataset/import_vertices.h"

#include <inttypes.h>

#include "common/base/error.h"
#include "common/data/dataset_files.h"
#include "common/text/units.h"
#include "dataset/split_writer.h"

// What the source says of its vertices is kept as it is, and told.
static int find_overlaps(struct sl_import *im, uint64_t n_nodes)
{
    struct sl_npy npy[SL_SPLIT_COUNT] = {0};
    struct sl_overlap_list list[SL_SPLIT_COUNT];
    char path[SL_STAGING_PATH_BYTES];
    int rc = SL_OK;
    for (int s = 0; s < SL_SPLIT_COUNT && rc == SL_OK; s++) {
        const char *name = sl_dataset_file_name((enum sl_dataset_file)(SL_FILE_TRAIN + s));
        if (im->vertices.n_split[s] > 0)
            rc = sl_npy_open(sl_staging_file(&im->making.st, name, path), &npy[s]);
        list[s] = (struct sl_overlap_list){npy[s].data, npy[s].head.dtype, npy[s].n_elems};
    }
    if (rc == SL_OK)
        rc = sl_overlaps_find(list, n_nodes, 0, &im->vertices.overlaps);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        sl_npy_close(&npy[s]);
    return rc;
}

int sl_import_finish_vertices(struct sl_import *im, uint64_t n_nodes)
{
    if (!im->vertices.feat_dim && (im->normalise_features || im->half_features))
        return sl_fail(SL_EINVAL,
                       "import %s: --%s given, but the source has no features: leave it "
                       "out",
                       im->source, im->half_features ? "f16" : "normalize-features");
    SL_TRY(sl_split_draw(im, n_nodes));
    return im->split ? SL_OK : find_overlaps(im, n_nodes);
}

void sl_import_summarise_vertices(const struct sl_import_vertices *f, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], text[SL_OVERLAPS_TEXT_BYTES];
    static const char *const words[] = {
        [SL_TASK_MULTICLASS] = "classes",
        [SL_TASK_MULTILABEL] = "labels a vertex",
        [SL_TASK_REGRESSION] = "numbers a vertex",
    };
    if (f->feat_dim)
        sl_table_row(t, "features|%" PRIu32 " x float%s%s", f->feat_dim, f->half ? "16" : "32",
                     f->normalised ? ", normalised" : "");
    if (f->n_flushed)
        sl_table_row(t, "too small for float16|became 0: %s", sl_units_grouped(a, f->n_flushed));
    if (f->n_classes)
        sl_table_row(t, "%s|%" PRIu32 "%s%s%s", words[f->task], f->n_classes,
                     f->n_unlabelled ? ", " : "",
                     f->n_unlabelled ? sl_units_grouped(a, f->n_unlabelled) : "",
                     f->n_unlabelled ? " vertices without" : "");
    if (f->one_hot)
        sl_table_row(t, "one label each|every vertex has exactly one of its labels: are they "
                        "classes, one-hot? (--task multiclass reads them so)");
    if (f->has_split)
        sl_table_row(t, "split|%s train, %s validation, %s test",
                     sl_units_grouped(a, f->n_split[SL_SPLIT_TRAIN]),
                     sl_units_grouped(b, f->n_split[SL_SPLIT_VAL]),
                     sl_units_grouped(c, f->n_split[SL_SPLIT_TEST]));
    if (f->overlaps.n)
        sl_table_row(t,
                     "overlap|%s: such a data set is refused unless its metadata.json has "
                     "\"splits\": \"overlap\"",
                     sl_overlaps_text(&f->overlaps, text));
}
