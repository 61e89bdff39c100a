#include "broker/cli/made.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "broker/cli/json_file.h"
#include "common/base/error.h"

enum { METADATA_BYTES_MAX = 16 << 20 };

static cJSON *summary_json(const struct sl_table *t)
{
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < t->n_rows && t->n_columns >= 2; i++) {
        const char *what = t->cells[i * t->n_columns], *value = t->cells[i * t->n_columns + 1];
        if (what && value)
            cJSON_AddStringToObject(o, what, value);
    }
    return o;
}

int sl_made_print(const struct sl_made *made, const struct sl_table *summary)
{
    char path[PATH_MAX + 32];
    cJSON *metadata;
    if (made->output == SL_OUTPUT_TEXT) {
        if (!made->quiet)
            sl_table_print(summary, stdout);
        return SL_OK;
    }
    snprintf(path, sizeof path, "%s/metadata.json", made->directory);
    SL_TRY(sl_json_file_read(path, METADATA_BYTES_MAX, &metadata));
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.made/1");
    cJSON_AddStringToObject(o, "directory", made->directory);
    cJSON_AddNumberToObject(o, "bytes", (double)made->bytes);
    cJSON_AddNumberToObject(o, "seconds", made->seconds);
    cJSON_AddItemToObject(o, "metadata", metadata);
    cJSON_AddItemToObject(o, "summary", summary_json(summary));
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (!text)
        return sl_fail(SL_ENOMEM, "no memory for the summary of '%s'", made->directory);
    printf("%s\n", text);
    free(text);
    return SL_OK;
}
