#include "cli/job_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/layout.h"
#include "common/text/sentence.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/text/json.h"
#include "common/schema/words.h"

enum { NODES_NAMED = 4, NOTE_BYTES = 512, NOTE_INDENT = 5, NOTE_COLUMNS_MIN = 24 };

static bool is_over(const cJSON *entry)
{
    return sl_job_state_is_over(sl_json_string(entry, "state"));
}

bool sl_job_table_is_recent(const cJSON *entry, double now)
{
    double ended = sl_json_number(entry, "ended");
    return !is_over(entry) || (isfinite(ended) && now - ended < SL_JOB_TABLE_RECENT_SECONDS);
}

// One line, and nothing that a table would take for the end of a cell.
static void make_plain(char *s)
{
    for (; *s; s++)
        if (*s == '|' || (unsigned char)*s < ' ')
            *s = *s == '|' ? '/' : ' ';
}

// "on 6 nodes: a, b, c, d, ..."
static size_t nodes_note(const cJSON *hosts, char *buf, size_t bytes)
{
    struct sl_sentence t = {buf, bytes};
    const cJSON *host;
    int left = NODES_NAMED;
    if (cJSON_GetArraySize(hosts) < 2)
        return 0;
    sl_sentence_say(&t, "on %s: ", SL_PLURAL(cJSON_GetArraySize(hosts), "node"));
    cJSON_ArrayForEach(host, hosts)
    {
        if (left-- > 0)
            sl_sentence_say(&t, "%s%s", host->prev->next ? ", " : "",
                            cJSON_IsString(host) && *host->valuestring ? host->valuestring : "?");
    }
    if (left < 0)
        sl_sentence_say(&t, ", ...");
    return strlen(buf);
}

char *sl_job_table_note(const cJSON *entry, char *buf, size_t bytes)
{
    double position = sl_json_number(entry, "position"), resumed = sl_json_number(entry, "resumed");
    const char *why = sl_json_string(entry, "why"), *message = sl_json_string(entry, "message");
    size_t n = 0;
    buf[0] = '\0';
    if (isfinite(position))
        n += (size_t)snprintf(buf, bytes, "number %.0f in the queue%s%s", position,
                              *why ? ": " : "", why);
    else if (*message)
        n += (size_t)snprintf(buf, bytes, "%s", message);
    else if (*why)
        n += (size_t)snprintf(buf, bytes, "%s", why);
    else
        n += nodes_note(sl_json_at(entry, "nodes"), buf, bytes);
    if (resumed > 0 && n < bytes)
        snprintf(buf + n, bytes - n, "%sresumed %s", n ? "; " : "", SL_PLURAL(resumed, "time"));
    make_plain(buf);
    return buf;
}

// --- cells ---------------------------------------------------------------------------------------

enum { CELL_BYTES = 160 };

static const char *epoch_cell(const cJSON *e, char out[CELL_BYTES])
{
    double epoch = sl_json_number(e, "epoch"), epochs = sl_json_number(e, "epochs");
    if (!isfinite(epochs) && !isfinite(epoch))
        return "";
    if (!(epochs > 0)) // it goes on until it is stopped
        snprintf(out, CELL_BYTES, "%.0f", epoch + 1);
    else if (isfinite(epoch))
        snprintf(out, CELL_BYTES, "%.0f/%.0f", SL_MIN(epoch + 1, epochs), epochs);
    else
        snprintf(out, CELL_BYTES, "-/%.0f", epochs);
    return out;
}

static const char *loss_cell(const cJSON *e, char out[CELL_BYTES])
{
    if (!isfinite(sl_json_number(e, "loss")))
        return "";
    snprintf(out, CELL_BYTES, "%.4f", sl_json_number(e, "loss"));
    return out;
}

static const char *split_cell(const cJSON *e, char out[CELL_BYTES])
{
    double samplers = sl_json_number(e, "samplers"), trainers = sl_json_number(e, "trainers");
    if (!isfinite(samplers) || !isfinite(trainers) || is_over(e))
        return "";
    snprintf(out, CELL_BYTES, "%.0fS %.0fT", samplers, trainers);
    return out;
}

// How much longer a job takes, how long one waits, how long ago one ended.
static const char *time_cell(const cJSON *e, double now, char out[CELL_BYTES])
{
    double left = sl_json_number(e, "seconds_left"), ended = sl_json_number(e, "ended");
    double started = sl_json_number(e, "started");
    double since = isfinite(started) ? started : sl_json_number(e, "submitted");
    char buf[SL_UNITS_BYTES];
    if (isfinite(ended))
        snprintf(out, CELL_BYTES, "%s ago", sl_units_rough_seconds(buf, now - ended, true));
    else if (left >= 0)
        snprintf(out, CELL_BYTES, "%s left", sl_units_rough_seconds(buf, left, true));
    else if (isfinite(since))
        snprintf(out, CELL_BYTES, "for %s", sl_units_rough_seconds(buf, now - since, true));
    else
        return "";
    return out;
}

static void add_row(struct sl_table *t, const cJSON *e, double now)
{
    char name[CELL_BYTES], cores[CELL_BYTES], epoch[CELL_BYTES], loss[CELL_BYTES];
    char split[CELL_BYTES], when[CELL_BYTES];
    snprintf(name, sizeof name, "%.140s", sl_json_string(e, "name"));
    snprintf(cores, sizeof cores, "%.140s", sl_json_string(e, "cores"));
    make_plain(name);
    make_plain(cores);
    sl_table_row(t, "%s|%s|%s|%s|%s|%s|%s|%s",
                 *sl_json_string(e, "id") ? sl_json_string(e, "id") : "run", name,
                 sl_json_string(e, "state"), epoch_cell(e, epoch), loss_cell(e, loss),
                 split_cell(e, split), cores, time_cell(e, now, when));
}

// --- the list ------------------------------------------------------------------------------------

static void print_daemon(const cJSON *daemon, unsigned columns, FILE *out)
{
    char up[SL_UNITS_BYTES], line[NOTE_BYTES];
    const char *free_cores = sl_json_string(daemon, "free_cores"),
               *page = sl_json_string(daemon, "page");
    if (!cJSON_IsObject(daemon))
        return;
    int n = snprintf(line, sizeof line, "daemon %s, process %.0f, for %s: cores %s, free %s",
                     sl_json_string(daemon, "version"), sl_json_number(daemon, "pid"),
                     sl_units_seconds(up, SL_MAX(sl_json_number(daemon, "seconds"), 0)),
                     sl_json_string(daemon, "cores"), *free_cores ? free_cores : "none");
    bool fits = !columns || (size_t)n + strlen("; page ") + strlen(page) <= columns;
    fprintf(out, "%s%s%s\n", line, !*page ? "" : fits ? "; page " : "\npage ", page);
    double damaged = sl_json_number(daemon, "damaged_records");
    if (damaged > 0)
        fprintf(out, "%.0f %s set aside: see %s/*.damaged\n", damaged,
                damaged == 1 ? "damaged record was" : "damaged records were",
                sl_json_string(daemon, "state_dir"));
    fprintf(out, "\n");
}

// The table without notes as text (owned: free()), a line a job behind heading and rule; NULL
// without memory.
static char *draw_table(const cJSON *jobs, double now)
{
    static const char *const headings[] = {"id",   "name",  "state", "epoch",
                                           "loss", "split", "cores", "time"};
    struct sl_table t;
    const cJSON *entry;
    char *shown = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&shown, &n);
    if (!f)
        return NULL;
    sl_table_init(&t, "r l l r r l l r", headings);
    cJSON_ArrayForEach(entry, jobs)
    {
        add_row(&t, entry, now);
    }
    sl_table_print(&t, f);
    sl_table_fini(&t);
    fclose(f);
    return shown;
}

// The table's lines, and behind or below each what is worth knowing of the job besides.
static void print_lines(const char *shown, const cJSON *jobs, size_t columns, FILE *out)
{
    char note[NOTE_BYTES];
    size_t width = 0;
    int at = -2; // heading and rule
    for (const char *line = shown; *line; line += strcspn(line, "\n") + 1)
        width = SL_MAX(width, sl_layout_width(line, strcspn(line, "\n")));
    for (const char *line = shown; *line; line += strcspn(line, "\n") + 1, at++) {
        size_t n = strcspn(line, "\n");
        const cJSON *entry = at >= 0 ? cJSON_GetArrayItem(jobs, at) : NULL;
        note[0] = '\0';
        if (entry)
            sl_job_table_note(entry, note, sizeof note);
        fprintf(out, "%.*s", (int)n, line);
        bool beside = !columns || width + 2 + sl_layout_width(note, strlen(note)) <= columns;
        if (*note && beside)
            fprintf(out, "%*s%s", (int)(width + 2 - sl_layout_width(line, n)), "", note);
        fputc('\n', out);
        if (*note && !beside) {
            fprintf(out, "%*s", NOTE_INDENT, "");
            sl_layout_paragraph(note, NOTE_INDENT, SL_MAX(columns, (size_t)NOTE_COLUMNS_MIN), out);
        }
    }
}

void sl_job_table_print(const cJSON *list, double now, unsigned columns, size_t n_left_out,
                        FILE *out)
{
    const cJSON *jobs = cJSON_GetObjectItemCaseSensitive(list, "jobs");
    print_daemon(cJSON_GetObjectItemCaseSensitive(list, "daemon"), columns, out);
    if (cJSON_GetArraySize(jobs) > 0) {
        char *shown = draw_table(jobs, now);
        print_lines(shown ? shown : "(no memory for this table)\n", jobs, columns, out);
        free(shown);
    } else {
        fprintf(out, "no jobs\n");
    }
    if (n_left_out)
        fprintf(out, "\n%zu more %s over: 'sluice ps --all' lists them\n", n_left_out,
                n_left_out == 1 ? "is" : "are");
}
