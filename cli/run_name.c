#include "cli/run_name.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/rundir/run_reader.h"
#include "cli/json_file.h"
#include "common/base/error.h"
#include "common/text/json.h"

enum { CONFIG_BYTES_MAX = 1 << 20, NAMES_BYTES = 512 };

struct search {
    const char *word;
    unsigned n;
    char *run;               // the first
    char names[NAMES_BYTES]; // of all of them, as far as there is room
};

// The job of a run (cJSON_Delete), or NULL.
static cJSON *read_config(const char *run)
{
    char path[SL_RUN_NAME_BYTES + 16];
    cJSON *config = NULL;
    snprintf(path, sizeof path, "%s/config.json", run);
    return sl_json_file_read(path, CONFIG_BYTES_MAX, &config) == SL_OK ? config : NULL;
}

bool sl_run_name_is_output(const char *run)
{
    char here[PATH_MAX], there[PATH_MAX];
    cJSON *config = read_config(run);
    bool is = realpath(sl_json_string(config, "output"), there) && realpath(run, here) &&
              strcmp(here, there) == 0;
    cJSON_Delete(config);
    return is;
}

static bool is_job_of(const char *run, const char *word)
{
    cJSON *config = read_config(run);
    bool is = strcmp(sl_json_string(config, "name"), word) == 0;
    cJSON_Delete(config);
    return is;
}

static void take(struct search *s, const char *run)
{
    size_t n = strlen(s->names);
    if (s->n == 0)
        snprintf(s->run, SL_RUN_NAME_BYTES, "%s", run);
    snprintf(s->names + n, sizeof s->names - n, "%s'%.200s'", s->n ? ", " : "", run);
    s->n++;
}

static void look_in(struct search *s, const char *folder)
{
    char run[SL_RUN_NAME_BYTES];
    DIR *entries = opendir(*folder ? folder : ".");
    const struct dirent *entry;
    for (int i = 0; entries && i < SL_RUN_NAME_ENTRIES && (entry = readdir(entries)); i++) {
        if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
            continue;
        snprintf(run, sizeof run, "%s%s", folder, entry->d_name);
        if (sl_run_reader_is_run(run) &&
            (strcmp(entry->d_name, s->word) == 0 || is_job_of(run, s->word)))
            take(s, run);
    }
    if (entries)
        closedir(entries);
}

int sl_run_name_find(const char *word, char run[SL_RUN_NAME_BYTES])
{
    struct search s = {.word = word, .run = run};
    if (sl_run_reader_is_run(word)) {
        snprintf(run, SL_RUN_NAME_BYTES, "%s", word);
        return SL_OK;
    }
    if (!*word || strchr(word, '/'))
        return SL_ENOENT;
    look_in(&s, "");
    look_in(&s, "runs/");
    if (s.n > 1)
        return sl_fail(SL_EINVAL, "job '%s': %u runs here are called so: %s: name its directory",
                       word, s.n, s.names);
    return s.n ? SL_OK : SL_ENOENT;
}
