/*
 * doctor_nodes.c - `sluice doctor --nodes`: started on several nodes at once, by mpirun or srun, it
 * says whether they are alike and how fast they talk. What is done is nodes/survey.h's; here is
 * what a node has, and how it is shown.
 */
#include "cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/dataset_command.h"
#include "cli/dispatch.h"
#include "cli/output.h"
#include "cli/world_command.h"
#include "common/base/error.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "config/config.h"
#include "link/node_facts.h"
#include "nodes/launcher.h"
#include "nodes/leftovers.h"
#include "nodes/room.h"

struct context {
    const char *job; // NULL: none
    int output, rc;
};

// --- what this node has --------------------------------------------------------------------------

static int add_dataset(struct sl_facts *f, const struct sl_config *config)
{
    struct sl_dataset ds;
    char path[sizeof config->dataset];
    uint32_t rank, n = sl_launcher_size(&rank);
    snprintf(path, sizeof path, "%s", config->dataset);
    if (n > 1)
        SL_TRY(sl_shard_find(config->dataset, rank, n, path, sizeof path));
    SL_TRY(sl_dataset_check_open(path, sl_config_needs(config) | SL_TAKES_SHARD, SL_CHECK_CACHED,
                                 true, &ds));
    int rc = sl_node_facts_add_dataset(f, &ds);
    sl_dataset_close(&ds);
    return rc;
}

static int add_job(struct sl_facts *f, const char *job)
{
    static struct sl_config config; // large
    uint64_t digest;
    SL_TRY(sl_node_facts_digest(job, &digest));
    SL_TRY(sl_facts_add(f, SL_FACT_JOB, "", "contents %016llx", (unsigned long long)digest));
    SL_TRY(sl_config_load(job, NULL, 0, &config));
    return add_dataset(f, &config);
}

static int look(void *ctx, struct sl_facts *f)
{
    const struct context *c = ctx;
    int rc = sl_node_facts_add_machine(f);
    if (rc == SL_OK && c->job)
        rc = add_job(f, c->job);
    // What a node misses is for the first one to show, with all the rest.
    if (rc < 0)
        SL_TRY(sl_facts_add(f, SL_FACT_PROBLEM, "", "%s", sl_error_message()));
    SL_TRY(sl_room_look(f));
    return sl_leftovers_look("/dev/shm", sl_room_temp(), f);
}

// --- as text -------------------------------------------------------------------------------------

static void print_nodes(const struct sl_world *w, const struct sl_survey *s)
{
    struct sl_table t;
    sl_table_init(&t, "r l r", (const char *[]){"rank", "host", "clock"});
    for (uint32_t i = 0; i < w->size; i++)
        sl_table_row(&t, "%u|%s|%+.3f s", i, w->member[i].host, s->clock_ahead_s[i]);
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static const char *figure_text(char *buf, enum sl_link_size size, double figure)
{
    if (figure <= 0)
        return "-";
    if (!sl_link_is_rate(size))
        return sl_units_brief_seconds(buf, figure);
    sl_units_bytes(buf, figure);
    strncat(buf, "/s", SL_UNITS_BYTES - strlen(buf) - 1);
    return buf;
}

static void print_links(const struct sl_world *w, const struct sl_survey *s)
{
    struct sl_table t;
    if (s->n_links == 0)
        return;
    const char *headings[2 + SL_LINK_SIZES_COUNT] = {"from", "to"};
    for (int k = 0; k < SL_LINK_SIZES_COUNT; k++)
        headings[2 + k] = sl_link_headings[k];
    sl_table_init(&t, "l l r r r r", headings);
    for (uint32_t i = 0; i < s->n_links; i++) {
        const struct sl_link *l = &s->link[i];
        char text[SL_LINK_SIZES_COUNT][SL_UNITS_BYTES];
        const char *x[SL_LINK_SIZES_COUNT];
        for (int k = 0; k < SL_LINK_SIZES_COUNT; k++)
            x[k] = figure_text(text[k], (enum sl_link_size)k, l->figure[k]);
        sl_table_row(&t, "%s|%s|%s|%s|%s|%s", w->member[l->a].host, w->member[l->b].host, x[0],
                     x[1], x[2], x[3]);
    }
    putchar('\n');
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static void print_text(const struct sl_world *w, const struct sl_survey *s)
{
    printf("%s by %s\n\n", SL_PLURAL(w->size, "node"), w->table->name());
    print_nodes(w, s);
    print_links(w, s);
    if (s->notes.n)
        putchar('\n');
    for (size_t i = 0; i < s->notes.n; i++)
        printf("%s: %s\n", s->notes.note[i].is_problem ? "problem" : "warning",
               s->notes.note[i].text);
    printf("\n%s\n", s->notes.problems ? "A job cannot run on these nodes until the problems are "
                                         "solved."
                     : s->notes.n      ? "The nodes are alike; mind the warnings."
                                       : "The nodes are alike.");
}

// --- as JSON -------------------------------------------------------------------------------------

static void add_nodes(cJSON *nodes, const struct sl_world *w, const struct sl_survey *s)
{
    for (uint32_t i = 0; i < w->size; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "rank", i);
        cJSON_AddStringToObject(one, "host", w->member[i].host);
        cJSON_AddNumberToObject(one, "clock_ahead_s", s->clock_ahead_s[i]);
        cJSON_AddItemToArray(nodes, one);
    }
}

static void add_links(cJSON *links, const struct sl_survey *s)
{
    for (uint32_t i = 0; i < s->n_links; i++) {
        const struct sl_link *l = &s->link[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "from", l->a);
        cJSON_AddNumberToObject(one, "to", l->b);
        for (int k = 0; k < SL_LINK_SIZES_COUNT; k++)
            if (l->figure[k] > 0)
                cJSON_AddNumberToObject(one, sl_link_keys[k], l->figure[k]);
            else
                cJSON_AddNullToObject(one, sl_link_keys[k]);
        cJSON_AddItemToArray(links, one);
    }
}

static int print_json(const struct sl_world *w, const struct sl_survey *s)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sluice.doctor.nodes/1");
    cJSON_AddStringToObject(root, "verdict",
                            s->notes.problems ? "problem"
                            : s->notes.n      ? "warning"
                                              : "ok");
    cJSON_AddStringToObject(root, "mpi", w->table->name());
    add_nodes(cJSON_AddArrayToObject(root, "nodes"), w, s);
    add_links(cJSON_AddArrayToObject(root, "links"), s);
    cJSON *notes = cJSON_AddArrayToObject(root, "notes");
    for (size_t i = 0; i < s->notes.n; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "verdict",
                                s->notes.note[i].is_problem ? "problem" : "warning");
        cJSON_AddStringToObject(one, "text", s->notes.note[i].text);
        cJSON_AddItemToArray(notes, one);
    }
    return sl_output_json_pages(root, "doctor");
}

// Before anybody is told: launchers end the others as soon as one has left with an error.
static void show(void *ctx, const struct sl_world *w, const struct sl_survey *s)
{
    struct context *c = ctx;
    if (c->output == SL_OUTPUT_JSON)
        c->rc = print_json(w, s);
    else
        print_text(w, s);
    fflush(stdout);
}

// --- the command ---------------------------------------------------------------------------------

int sl_doctor_nodes(const char *job, int output)
{
    struct context c = {.job = job, .output = output};
    const struct sl_survey_spec survey = {.look = look, .ctx = &c, .show = show};
    uint32_t problems = 0;
    SL_TRY(sl_world_command_run("doctor", &survey, &problems));
    SL_TRY(c.rc);
    return problems ? SL_EXIT_USAGE : SL_EXIT_OK;
}
