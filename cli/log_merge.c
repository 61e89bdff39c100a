#include "cli/log_merge.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "broker/log/stream.h"
#include "common/base/bits.h"
#include "common/base/error.h"

enum { DAY_MS = 86400000, NAME_BYTES = 64 };

struct sl_log_file {
    char path[4480];
    char name[NAME_BYTES]; // without ".log"
    uint64_t offset;       // read so far
    int64_t last_ms;       // time of its last line; 0 = none yet
};

void sl_log_merge_init(struct sl_log_merge *m, const char *run_directory, const char *extra,
                       const char *worker)
{
    memset(m, 0, sizeof *m);
    snprintf(m->directory, sizeof m->directory, "%.4096s/log", run_directory);
    snprintf(m->extra, sizeof m->extra, "%.4196s", extra ? extra : "");
    snprintf(m->worker, sizeof m->worker, "%.60s", worker ? worker : "");
    for (char *p = m->worker; *p; p++)
        if (*p == ' ')
            *p = '-';
}

static void drop_lines(struct sl_log_merge *m)
{
    for (size_t i = 0; i < m->n_lines; i++)
        free(m->lines[i].text);
    m->n_lines = 0;
}

void sl_log_merge_fini(struct sl_log_merge *m)
{
    drop_lines(m);
    free(m->lines);
    free(m->files);
    m->lines = NULL;
    m->files = NULL;
    m->n_files = m->capacity = 0;
}

// --- files ---------------------------------------------------------------------------------------

static bool is_known(const struct sl_log_merge *m, const char *path)
{
    for (size_t i = 0; i < m->n_files; i++)
        if (strcmp(m->files[i].path, path) == 0)
            return true;
    return false;
}

static int add_file(struct sl_log_merge *m, const char *path, const char *name)
{
    if (is_known(m, path) || m->n_files == SL_LOG_MERGE_FILES_MAX)
        return SL_OK;
    struct sl_log_file *files = realloc(m->files, (m->n_files + 1) * sizeof *files);
    if (!files)
        return sl_fail(SL_ENOMEM, "no memory for %zu log files", m->n_files + 1);
    m->files = files;
    files[m->n_files] = (struct sl_log_file){0};
    snprintf(files[m->n_files].path, sizeof files->path, "%s", path);
    snprintf(files[m->n_files].name, sizeof files->name, "%.*s", NAME_BYTES - 1, name);
    m->n_files++;
    // Lines borrow the names.
    drop_lines(m);
    return SL_OK;
}

static int find_files(struct sl_log_merge *m)
{
    char path[sizeof m->files->path];
    struct stat st;
    if (m->extra[0] && stat(m->extra, &st) == 0)
        SL_TRY(add_file(m, m->extra, "broker"));
    DIR *dir = opendir(m->directory);
    if (!dir)
        return SL_OK; // not yet
    int rc = SL_OK;
    for (struct dirent *e = readdir(dir); e && rc == SL_OK; e = readdir(dir)) {
        size_t n = strlen(e->d_name);
        char name[256];
        if (n < 5 || strcmp(e->d_name + n - 4, ".log") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n - 4, e->d_name);
        snprintf(path, sizeof path, "%s/%s", m->directory, e->d_name);
        rc = add_file(m, path, name);
    }
    closedir(dir);
    return rc;
}

// --- lines ---------------------------------------------------------------------------------------

// The time of day in ms and the level of "12:34:56.789 W text"; false for a line without them.
static bool read_stamp(const char *line, size_t n, int64_t *ms, int *level)
{
    *level = sl_stream_level(line, n);
    if (*level < 0)
        return false;
#define TWO(at) (10 * (line[at] - '0') + (line[(at) + 1] - '0'))
    *ms = ((TWO(0) * 60 + TWO(3)) * 60 + TWO(6)) * 1000ll + 100 * (line[9] - '0') + TWO(10);
#undef TWO
    return true;
}

static int append_line(struct sl_log_merge *m, const char *worker, const char *text, size_t n)
{
    if (m->n_lines == m->capacity) {
        size_t capacity = SL_MAX(2 * m->capacity, (size_t)256);
        struct sl_log_line *lines = realloc(m->lines, capacity * sizeof *lines);
        if (!lines)
            return sl_fail(SL_ENOMEM, "no memory for %zu lines of logs", capacity);
        m->lines = lines;
        m->capacity = capacity;
    }
    char *copy = strndup(text, n);
    if (!copy)
        return sl_fail(SL_ENOMEM, "no memory for a line of a log");
    m->lines[m->n_lines] =
        (struct sl_log_line){.worker = worker, .level = -1, .text = copy, .at = m->n_lines};
    m->n_lines++;
    return SL_OK;
}

// Midnight before a time, by the clock on the wall.
static int64_t day_of(int64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm local;
    localtime_r(&seconds, &local);
    local.tm_hour = local.tm_min = local.tm_sec = 0;
    return (int64_t)mktime(&local) * 1000;
}

// Lines [first, n_lines) get their times; the last one was written no later than written_ms.
static void date_lines(struct sl_log_merge *m, size_t first, int64_t written_ms,
                       struct sl_log_file *file)
{
    int64_t day = day_of(written_ms), later = DAY_MS, of_day;
    // A clock that is read before the line is written: a second is enough.
    bool is_last = true;
    for (size_t i = m->n_lines; i-- > first;) {
        struct sl_log_line *line = &m->lines[i];
        if (!read_stamp(line->text, strlen(line->text), &of_day, &line->level)) {
            line->time_ms = -1;
            continue;
        }
        if (is_last ? day + of_day > written_ms + 1000 : of_day > later)
            day = day_of(day - DAY_MS / 2);
        later = of_day;
        is_last = false;
        line->time_ms = day + of_day;
    }
    int64_t before = file->last_ms ? file->last_ms : written_ms;
    for (size_t i = first; i < m->n_lines; i++) {
        if (m->lines[i].time_ms < 0)
            m->lines[i].time_ms = before;
        // Never back within a file, whatever the clock did.
        before = m->lines[i].time_ms = SL_MAX(m->lines[i].time_ms, file->last_ms);
        file->last_ms = before;
    }
}

static int take_text(struct sl_log_merge *m, struct sl_log_file *file, const char *text, size_t n,
                     int64_t written_ms)
{
    size_t first = m->n_lines;
    for (const char *end = text + n; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (!newline)
            break;
        if (newline > text)
            SL_TRY(append_line(m, file->name, text, (size_t)(newline - text)));
        text = newline + 1;
    }
    date_lines(m, first, written_ms, file);
    return SL_OK;
}

// Complete lines behind file->offset.
static int read_file(struct sl_log_merge *m, struct sl_log_file *file)
{
    struct stat st;
    FILE *f = fopen(file->path, "re");
    if (!f)
        return SL_OK; // gone, or not ours to read
    if (fstat(fileno(f), &st) != 0 || (uint64_t)st.st_size <= file->offset) {
        fclose(f);
        return SL_OK;
    }
    uint64_t size = (uint64_t)st.st_size;
    if (size - file->offset > SL_LOG_MERGE_FILE_BYTES_MAX) {
        m->left_out_bytes += size - file->offset - SL_LOG_MERGE_FILE_BYTES_MAX;
        file->offset = size - SL_LOG_MERGE_FILE_BYTES_MAX;
    }
    size_t want = (size_t)(size - file->offset);
    char *text = malloc(want);
    int rc = SL_OK;
    if (!text) {
        fclose(f);
        return sl_fail(SL_ENOMEM, "no memory for %zu bytes of '%s'", want, file->path);
    }
    size_t n = fseeko(f, (off_t)file->offset, SEEK_SET) == 0 ? fread(text, 1, want, f) : 0;
    fclose(f);
    while (n > 0 && text[n - 1] != '\n')
        n--;
    rc = take_text(m, file, text, n,
                   (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
    file->offset += n;
    free(text);
    return rc;
}

// Where a line stood settles equal times: qsort() does not keep the order.
static int by_time(const void *a, const void *b)
{
    const struct sl_log_line *x = a, *y = b;
    if (x->time_ms != y->time_ms)
        return x->time_ms < y->time_ms ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of the workers that have a file, for messages. Returns buf.
static char *workers_text(const struct sl_log_merge *m, char *buf, size_t bytes)
{
    const char **names = calloc(m->n_files + 1, sizeof *names);
    size_t n = 0;
    buf[0] = '\0';
    for (size_t i = 0; names && i < m->n_files; i++)
        names[i] = m->files[i].name;
    if (names)
        qsort(names, m->n_files, sizeof *names, by_name);
    for (size_t i = 0; names && i < m->n_files && n < bytes; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            n += (size_t)snprintf(buf + n, bytes - n, "%s'%s'", n ? ", " : "", names[i]);
    free(names);
    return buf;
}

int sl_log_merge_poll(struct sl_log_merge *m)
{
    bool any = false;
    SL_TRY(find_files(m));
    drop_lines(m);
    for (size_t i = 0; i < m->n_files; i++) {
        if (m->worker[0] && strcmp(m->worker, m->files[i].name) != 0)
            continue;
        any = true;
        SL_TRY(read_file(m, &m->files[i]));
    }
    if (any && m->n_lines)
        qsort(m->lines, m->n_lines, sizeof *m->lines, by_time);
    if (any)
        return SL_OK;
    if (m->n_files == 0)
        return sl_fail(SL_ENOENT, "'%s' has no log files", m->directory);
    char names[512];
    return sl_fail(SL_ENOENT, "'%s' has no log of '%s': there is one of %s", m->directory,
                   m->worker, workers_text(m, names, sizeof names));
}
