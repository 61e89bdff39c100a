// typed_json.h - the types and relations of a data set, as reports, plans and `inspect` have them.
#ifndef SL_DATA_TYPED_JSON_H
#define SL_DATA_TYPED_JSON_H

#include <cjson/cJSON.h>

#include "common/data/dataset.h"

// An object each. Owned; NULL: a plain graph.
cJSON *sl_typed_types_to_json(const struct sl_dataset *ds);
cJSON *sl_typed_relations_to_json(const struct sl_dataset *ds);

#endif
