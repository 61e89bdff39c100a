#include "common/data/features_kind.h"

#include <stddef.h>

#include "common/base/bits.h"

#define ROW(name, word_, what, ...)      [SL_FEATURES_##name] = {.word = word_, __VA_ARGS__},
#define WORD(name, word_, what, ...)     [SL_FEATURES_##name] = word_,
#define SENTENCE(name, word_, what, ...) " " word_ ": " what "."

const struct sl_features_kind sl_features_kinds[] = {{.word = "auto"}, SL_FEATURES_KINDS(ROW)};
const char *const sl_features_words[] = {"auto", SL_FEATURES_KINDS(WORD) NULL};
const char sl_features_doc[] = "Where features are during training." SL_FEATURES_KINDS(
    SENTENCE) " auto: storage where "
              "features and topology need more than three quarters of the available memory.";

static uint64_t bytes_of_types(const struct sl_typed *typed)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < typed->n_types; i++)
        bytes += sl_type_feature_bytes(&typed->type[i]);
    return bytes;
}

uint64_t sl_features_bytes(const struct sl_dataset *ds)
{
    uint64_t bytes = sl_dataset_rows(ds) * ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
    for (uint32_t i = 0; i < ds->typed.n_types; i++)
        bytes +=
            sl_dataset_type_rows(ds, &ds->typed.type[i]) * sl_type_row_bytes(&ds->typed.type[i]);
    return bytes;
}

uint64_t sl_features_mean_bytes(const struct sl_typed *typed, uint64_t n)
{
    return n ? sl_div_up(bytes_of_types(typed), n) : 0;
}

uint64_t sl_features_row_bytes(const struct sl_dataset *ds)
{
    if (ds->typed.n_types == 0)
        return ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
    return sl_features_mean_bytes(&ds->typed, ds->n_nodes);
}

uint64_t sl_topology_bytes(const struct sl_dataset *ds)
{
    uint64_t weight = ds->edge_weight ? sizeof *ds->edge_weight : 0;
    return (sl_dataset_lists(ds) + 1) * sizeof *ds->indptr +
           ds->n_edges * (sl_dtype_bytes(ds->indices_dtype) + weight);
}

enum sl_features sl_features_settle(enum sl_features features, const struct sl_dataset *ds)
{
    if (features == SL_FEATURES_MEMORY && ds->shard.count)
        return SL_FEATURES_NODES;
    return features == SL_FEATURES_NODES && !ds->shard.count ? SL_FEATURES_MEMORY : features;
}

enum sl_features sl_features_choose(const struct sl_dataset *ds, uint64_t available_bytes)
{
    uint64_t wanted = sl_features_bytes(ds) + sl_topology_bytes(ds);
    return sl_features_settle(
        wanted > available_bytes / 4 * 3 ? SL_FEATURES_STORAGE : SL_FEATURES_MEMORY, ds);
}
