#include "common/text/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const cJSON *sl_json_at(const cJSON *object, const char *path)
{
    char key[64];
    while (object && *path) {
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        object = cJSON_GetObjectItemCaseSensitive(object, key);
        path += n + (path[n] == '.');
    }
    return object;
}

double sl_json_number(const cJSON *object, const char *path)
{
    const cJSON *value = sl_json_at(object, path);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

const char *sl_json_string(const cJSON *object, const char *path)
{
    const cJSON *value = sl_json_at(object, path);
    return cJSON_IsString(value) ? value->valuestring : "";
}

void sl_json_add_text(cJSON *object, const char *key, const char *text)
{
    cJSON_AddItemToObject(object, key,
                          text && *text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void sl_json_add_number(cJSON *object, const char *key, double value)
{
    cJSON_AddItemToObject(object, key,
                          isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}
