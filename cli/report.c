/*
 * report.c - `sluice report RUN`: shows the results of a run, and how it went.
 *
 * All of it is in the run directory, so no job need be running, and none is disturbed: a job's name
 * is only a way to find the directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/rundir/run_reader.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/report_view.h"
#include "cli/run_name.h"
#include "cli/session.h"
#include "broker/page/page.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/data/atomic_file.h"
#include "common/text/json.h"

struct request {
    const char *run, *out;
    struct sl_session_where where;
    bool html, all;
    int output;
};

// The run directory that is meant: one that is there, else that of a job.
static int find_run(const struct request *r, char run[4096])
{
    struct stat st;
    bool there = stat(r->run, &st) == 0;
    if (there && S_ISDIR(st.st_mode) && sl_run_reader_is_run(r->run)) {
        snprintf(run, 4096, "%s", r->run);
        return SL_OK;
    }
    struct sl_session session;
    int rc = sl_session_open(&r->where, r->run, &session);
    if (rc < 0 && there && S_ISDIR(st.st_mode))
        return sl_fail(SL_ENOENT,
                       "report: '%s' is a directory without report.json or config.json, wanted one "
                       "that a run has written",
                       r->run);
    if (rc < 0 && (there || strchr(r->run, '/')))
        return sl_fail(SL_ENOENT, "report: '%s' is no run directory%s", r->run,
                       there ? " but a file: give the directory that it is in"
                             : ": it is not there");
    if (rc == SL_ENOENT && !r->where.connect) {
        char why[2048];
        snprintf(why, sizeof why, "%s", sl_error_message());
        rc = sl_run_name_find(r->run, run);
        if (rc == SL_OK)
            return rc;
        if (rc == SL_ENOENT)
            sl_fail(rc, "%s", why);
    }
    if (rc < 0)
        return sl_fail_prefix(rc, "report: no run directory '%s'", r->run);
    snprintf(run, 4096, "%s", session.output);
    sl_session_close(&session);
    if (sl_run_reader_is_run(run))
        return SL_OK;
    return sl_fail(SL_EFAILED,
                   "report: job '%s' has not written anything yet: it waits, or its workers are "
                   "starting ('%s')",
                   r->run, run);
}

static int print_json(const char *run, const cJSON *described)
{
    char *text = NULL;
    int rc = sl_run_reader_report_text(run, &text);
    if (rc == SL_ENOENT) {
        text = sl_json_pages(cJSON_GetObjectItemCaseSensitive(described, "report"));
        rc = text ? SL_OK : sl_fail(SL_ENOMEM, "report: no memory");
    }
    if (rc == SL_OK)
        printf("%s%s", text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
    free(text);
    return rc;
}

// The page (owned); NULL without memory.
static char *make_page(const cJSON *described, const struct sl_read_report *read)
{
    char *words = NULL, *json = sl_json_line(described);
    size_t n;
    FILE *f = open_memstream(&words, &n);
    if (f)
        sl_report_view_print(f, described, read, true);
    bool whole = f && fclose(f) == 0;
    char *page = whole && json ? sl_page_standalone(words, json) : NULL;
    free(words);
    free(json);
    return page;
}

static int write_html(const struct request *r, const char *run, const cJSON *described,
                      const struct sl_read_report *read)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/report.html", run);
    const char *file = r->out ? r->out : path;
    char *html = make_page(described, read);
    bool piped = strcmp(file, "-") == 0;
    int rc = !html   ? sl_fail(SL_ENOMEM, "report: no memory for the page")
             : piped ? SL_OK
                     : sl_atomic_file_write(file, html, strlen(html));
    if (rc == SL_OK)
        printf("%s\n", piped ? html : file);
    free(html);
    return rc < 0 ? sl_fail_prefix(rc, "report: the page") : rc;
}

static int report(void *state)
{
    const struct request *r = state;
    char run[4096];
    cJSON *described;
    struct sl_read_report read;
    if (r->out && !r->html)
        return sl_fail(SL_EINVAL, "report: --out names the page's file: give --html with it");
    if (r->html && r->output == SL_OUTPUT_JSON)
        return sl_fail(SL_EINVAL, "report: --html and -o json are two things: ask for one of them");
    SL_TRY(find_run(r, run));
    int rc = sl_run_reader_describe(run, &described);
    if (rc < 0)
        return sl_fail_prefix(rc, "report");
    rc = sl_read_report_init(&read, sl_json_at(described, "report"));
    if (rc < 0)
        rc = sl_fail_prefix(rc, "report");
    else if (r->html)
        rc = write_html(r, run, described, &read);
    else if (r->output == SL_OUTPUT_JSON)
        rc = print_json(run, described);
    else
        sl_report_view_print(stdout, described, &read, r->all);
    sl_read_report_fini(&read);
    cJSON_Delete(described);
    return rc;
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "output", .letter = 'o', AT(CHOICE, output), .choices = sl_output_names,
     .help = "how to print; json: report.json as it is, or what is known so far"},
    {.name = "all", AT(FLAG, all), .help = "every epoch and event, not only the newest 20"},
    {.name = "html", AT(FLAG, html),
     .help = "write a page with all of it into one file, which needs no server"},
    {.name = "out", AT(TEXT, out), .placeholder = "FILE",
     .help = "with --html: the file, - for standard output [RUN/report.html]"},
    {0},
};
// clang-format on

const struct sl_command sl_command_report = {
    .name = "report",
    .of_ended_jobs = true,
    .help = "what came out of a run and how it went; --html makes a page of it",
    .about = "Shows what came out of a run and how it went: results, stages, epochs and what "
             "limited them, decisions on the split, deaths of workers, events. RUN is a run "
             "directory, or a job's name or id. Of a run that is under way, or was killed, it "
             "shows what is known so far.",
    .example = "sluice report runs/products-sage\n"
               "sluice report products-sage -o json | jq '.epochs[].val_accuracy'\n"
               "sluice report runs/products-sage --html --out products.html",
    .operands = {{"RUN", offsetof(struct request, run)}},
    .options = {{options}, {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = report,
};
