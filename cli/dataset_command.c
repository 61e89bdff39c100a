#include "cli/dataset_command.h"

#include <limits.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "cli/json_file.h"
#include "common/base/error.h"
#include "common/text/progress.h"

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

#define AT(kind, field) SL_OPTION_AT(kind, sl_dataset_builder, field)
// clang-format off
const struct sl_option sl_dataset_command_place[] = {
    {.name = "out", AT(TEXT, out), .placeholder = "DIR", .required = true,
     .help = "the data set directory to make"},
    {.name = "force", AT(FLAG, force), .help = "replace a data set of that name"},
    {.name = "name", AT(TEXT, name), .placeholder = "NAME",
     .help = "its name in metadata.json, else DIR's last part"},
    {0},
};
const struct sl_option sl_dataset_command_quiet[] = {
    {.name = "quiet", .letter = 'q', AT(FLAG, quiet), .help = "no progress and no summary"},
    {0},
};
// clang-format on

int sl_dataset_command_print(const struct sl_dataset_builder *m, int output)
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
    return sl_output_json_line(o, "the summary");
}

// --- opening one ---------------------------------------------------------------------------------

#define WORTH_TELLING ((uint64_t)256 << 20) // bytes; a fraction of a second

static void begin(void *ctx, uint64_t bytes)
{
    if (bytes > WORTH_TELLING)
        sl_progress_begin(ctx, "checking the data set", bytes, "B");
}

static void add(void *ctx, uint64_t bytes)
{
    struct sl_progress *p = ctx;
    if (p->active)
        sl_progress_add(p, bytes);
}

int sl_dataset_check_open(const char *path, unsigned need, enum sl_dataset_check check, bool quiet,
                          struct sl_dataset *out)
{
    struct sl_progress progress;
    sl_progress_init(&progress, quiet);
    const struct sl_dataset_watch watch = {begin, add, &progress};
    int rc = sl_dataset_open_watched(path, need, check, 0, &watch, out);
    sl_progress_clear(&progress);
    return rc;
}
