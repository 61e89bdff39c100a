// input.c - which vertices a job for external trainers walks through.
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "config/config.h"
#include "config/keys_internal.h"

int sl_config_choose_vertices(const struct sl_config *c, struct sl_dataset *dataset)
{
    static const enum sl_split splits[] = {[SL_INPUT_TRAIN] = SL_SPLIT_TRAIN,
                                           [SL_INPUT_VAL] = SL_SPLIT_VAL,
                                           [SL_INPUT_TEST] = SL_SPLIT_TEST};
    if (!sl_config_is_external(c))
        return SL_OK;
    struct sl_vertex_list chosen = {.n = dataset->n_nodes};
    if (c->input.split != SL_INPUT_ALL)
        chosen = dataset->split[splits[c->input.split]];
    if (chosen.n == 0)
        return sl_fail(
            SL_EINVAL,
            "input.split: found \"%s\", and data set '%s' has no such vertices, wanted a "
            "list that it has: take \"train\" or \"all\"",
            sl_key_word(sl_key_find("input.split"), c), dataset->path);
    dataset->split[SL_SPLIT_TRAIN] = chosen;
    dataset->split[SL_SPLIT_VAL] = dataset->split[SL_SPLIT_TEST] = (struct sl_vertex_list){0};
    return SL_OK;
}
