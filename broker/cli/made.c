#include "broker/cli/made.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

size_t sl_made_first_options(struct sl_making *m, struct sl_option *options)
{
    const struct sl_option first[SL_MADE_FIRST_OPTIONS] = {
        {.name = "out",
         .type = SL_OPTION_TEXT,
         .value = &m->out,
         .placeholder = "DIR",
         .required = true,
         .help = "the data set directory to make"},
        {.name = "force",
         .type = SL_OPTION_FLAG,
         .value = &m->force,
         .help = "replace a data set of that name"},
        {.name = "name",
         .type = SL_OPTION_TEXT,
         .value = &m->name,
         .placeholder = "NAME",
         .help = "its name in metadata.json, else DIR's last part"},
    };
    memcpy(options, first, sizeof first);
    return SL_MADE_FIRST_OPTIONS;
}

size_t sl_made_last_options(struct sl_making *m, int *output, struct sl_option *options)
{
    options[0] = (struct sl_option){.name = "quiet",
                                    .letter = 'q',
                                    .type = SL_OPTION_FLAG,
                                    .value = &m->quiet,
                                    .help = "no progress and no summary"};
    options[1] = sl_output_option(output);
    return SL_MADE_LAST_OPTIONS;
}

int sl_made_print(const struct sl_making *m, int output)
{
    char path[PATH_MAX + 32];
    cJSON *metadata;
    if (output == SL_OUTPUT_TEXT) {
        if (!m->quiet)
            sl_table_print(&m->summary, stdout);
        return SL_OK;
    }
    snprintf(path, sizeof path, "%s/metadata.json", m->st.final);
    SL_TRY(sl_json_file_read(path, METADATA_BYTES_MAX, &metadata));
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.made/1");
    cJSON_AddStringToObject(o, "directory", m->st.final);
    cJSON_AddNumberToObject(o, "bytes", (double)m->bytes);
    cJSON_AddNumberToObject(o, "seconds", m->seconds);
    cJSON_AddItemToObject(o, "metadata", metadata);
    cJSON_AddItemToObject(o, "summary", summary_json(&m->summary));
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (!text)
        return sl_fail(SL_ENOMEM, "no memory for the summary of '%s'", m->st.final);
    printf("%s\n", text);
    free(text);
    return SL_OK;
}
