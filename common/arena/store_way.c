#include "common/arena/store_way.h"

#define ROW(name, word_, page, why_)                                                               \
    [SL_STORE_WAY_##name] = {.word = word_, .why = why_, .page_bytes = page},

const struct sl_store_way_kind sl_store_ways[] = {{0}, SL_STORE_WAYS(ROW)};
