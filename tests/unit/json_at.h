// json_at.h - looking into JSON; what is not there, or of another kind, fails the test.
#ifndef SL_TESTS_UNIT_JSON_AT_H
#define SL_TESTS_UNIT_JSON_AT_H

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/asserts.h"

// "epochs.1.cache.hits"
static inline const cJSON *at(const cJSON *json, const char *path)
{
    char keys[256], *save = NULL;
    snprintf(keys, sizeof keys, "%s", path);
    for (char *key = strtok_r(keys, ".", &save); key; key = strtok_r(NULL, ".", &save)) {
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(key))
                                   : cJSON_GetObjectItemCaseSensitive(json, key);
        ck_assert_msg(json != NULL, "no '%s' of %s", key, path);
    }
    return json;
}

static inline double number(const cJSON *json, const char *path)
{
    const cJSON *item = at(json, path);
    ck_assert_msg(cJSON_IsNumber(item), "%s is no number", path);
    return item->valuedouble;
}

static inline const char *words(const cJSON *json, const char *path)
{
    const cJSON *item = at(json, path);
    ck_assert_msg(cJSON_IsString(item), "%s is no text", path);
    return item->valuestring;
}

#endif
