#include "common/base/json_print.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sl_number_text(double value, char out[SL_NUMBER_TEXT_BYTES])
{
    const char *point = localeconv()->decimal_point;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, SL_NUMBER_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    // A whole number below 2^53 reads better without an exponent.
    if (value > -9.1e15 && value < 9.1e15 && value == (double)(long long)value)
        snprintf(out, SL_NUMBER_TEXT_BYTES, "%.0f", value == 0 ? 0.0 : value);
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(out, point);
    if (at) {
        *at = '.';
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    }
}

void sl_json_put_whole(cJSON *object, const char *key, uint64_t value)
{
    char text[SL_NUMBER_TEXT_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    cJSON_AddRawToObject(object, key, text);
}

// Numbers become texts that cJSON hands on as they are. False: no memory.
static bool spell_numbers(cJSON *item)
{
    for (; item; item = item->next) {
        if (cJSON_IsNumber(item) && isfinite(item->valuedouble)) {
            char text[SL_NUMBER_TEXT_BYTES];
            sl_number_text(item->valuedouble, text);
            item->valuestring = cJSON_malloc(strlen(text) + 1);
            if (!item->valuestring)
                return false;
            memcpy(item->valuestring, text, strlen(text) + 1);
            item->type = (item->type & ~0xff) | cJSON_Raw; // whose key it has stays
        }
        if (!spell_numbers(item->child))
            return false;
    }
    return true;
}

static char *print(const cJSON *tree, bool indented)
{
    cJSON *spelled = tree ? cJSON_Duplicate(tree, true) : NULL;
    char *text = NULL;
    if (spelled && spell_numbers(spelled))
        text = indented ? cJSON_Print(spelled) : cJSON_PrintUnformatted(spelled);
    cJSON_Delete(spelled);
    return text;
}

char *sl_json_line(const cJSON *tree)
{
    return print(tree, false);
}

char *sl_json_pages(const cJSON *tree)
{
    return print(tree, true);
}
