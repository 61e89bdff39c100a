#include "broker/sharding/type_figures.h"

#include "common/arena/seat.h"
#include "common/arena/type_counts.h"

struct sl_stats_type sl_type_figures_of(const struct sl_arena *a, const struct sl_typed *typed,
                                        uint32_t type)
{
    const struct sl_type_count count = sl_type_counts_rows(a, type);
    return (struct sl_stats_type){
        .name = typed->type[type].name,
        .input_nodes = (double)count.rows,
        .hits = (double)count.hits,
        .hit_bytes = (double)count.hit_bytes,
        .miss_bytes = (double)count.miss_bytes,
    };
}

struct sl_stats_relation sl_relation_figures_of(const struct sl_arena *a,
                                                const struct sl_typed *typed, uint32_t relation)
{
    const struct sl_relation *r = &typed->relation[relation];
    return (struct sl_stats_relation){
        .source = typed->type[r->source].name,
        .name = r->name,
        .target = typed->type[r->target].name,
        .sampled_edges = (double)sl_type_counts_edges(a, relation),
    };
}

bool sl_type_figures_held(const struct sl_arena *a, const struct sl_typed *typed, uint32_t device,
                          uint32_t type, struct sl_stats_held *out)
{
    const uint64_t rows = sl_type_counts_held(a, sl_seat_trainer(a, device), type);
    out->type = typed->type[type].name;
    out->rows = (double)rows;
    out->bytes = (double)(rows * sl_type_row_bytes(&typed->type[type]));
    return rows > 0;
}

void sl_type_figures_add(const struct sl_arena *a, const struct sl_typed *typed, cJSON *types,
                         cJSON *relations)
{
    uint32_t t = 0, r = 0;
    cJSON *o;
    cJSON_ArrayForEach(o, types)
    {
        const struct sl_stats_type figures = sl_type_figures_of(a, typed, t++);
        sl_fields_write(&sl_stats_type_counts, &figures, o);
    }
    cJSON_ArrayForEach(o, relations)
    {
        const struct sl_stats_relation figures = sl_relation_figures_of(a, typed, r++);
        sl_fields_write(&sl_stats_relation_counts, &figures, o);
    }
}
