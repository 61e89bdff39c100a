#include "nodes/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/units.h"

enum { KEPT = 64 }; // of more only the number is known

struct leftovers {
    char path[KEPT][PATH_MAX];
    bool mapped[KEPT];
    size_t n;
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_ours(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (geteuid() == 0 || st.st_uid == geteuid());
}

static void keep(struct leftovers *l, const char *folder, const char *name)
{
    if (l->n == KEPT)
        return;
    int n = snprintf(l->path[l->n], PATH_MAX, "%s/%s", folder, name);
    if (n > 0 && n < PATH_MAX && is_ours(l->path[l->n]))
        l->mapped[l->n++] = false;
}

static void keep_segments(struct leftovers *l, const char *shm)
{
    static const char *const names[] = {"vader_segment.", "sm_segment."};
    DIR *dir = opendir(shm);
    for (struct dirent *e; dir && (e = readdir(dir));)
        for (size_t i = 0; i < SL_COUNT_OF(names); i++)
            if (begins(e->d_name, names[i]))
                keep(l, shm, e->d_name);
    if (dir)
        closedir(dir);
}

static void mark_mapped(struct leftovers *l, FILE *maps)
{
    char line[PATH_MAX + 128];
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path)
            continue;
        path[strcspn(path, "\n")] = '\0';
        for (size_t i = 0; i < l->n; i++)
            l->mapped[i] |= strcmp(l->path[i], path) == 0;
    }
}

// Takes out those that a living process has mapped.
static void drop_mapped(struct leftovers *l)
{
    DIR *dir = l->n ? opendir("/proc") : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[64];
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/maps", e->d_name);
        FILE *maps = fopen(path, "re");
        if (!maps)
            continue;
        mark_mapped(l, maps);
        fclose(maps);
    }
    if (dir)
        closedir(dir);
    size_t left = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!l->mapped[i])
            memmove(l->path[left++], l->path[i], PATH_MAX);
    l->n = left;
}

static void keep_sessions(struct leftovers *l, const char *session)
{
    DIR *dir = opendir(session);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *end;
        long pid = begins(e->d_name, "pid.") ? strtol(e->d_name + 4, &end, 10) : 0;
        if (pid > 0 && !*end && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            keep(l, session, e->d_name);
    }
    if (dir)
        closedir(dir);
}

static void keep_all_sessions(struct leftovers *l, const char *temp)
{
    DIR *dir = opendir(temp);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char session[PATH_MAX];
        if (begins(e->d_name, "ompi.") &&
            snprintf(session, sizeof session, "%s/%s", temp, e->d_name) < PATH_MAX)
            keep_sessions(l, session);
    }
    if (dir)
        closedir(dir);
}

int sl_leftovers_look(const char *shm, const char *temp, struct sl_facts *facts)
{
    struct leftovers *l = malloc(sizeof *l);
    if (!l)
        return sl_fail(SL_ENOMEM, "leftovers of MPI: no memory");
    l->n = 0;
    keep_segments(l, shm);
    drop_mapped(l);
    keep_all_sessions(l, temp);
    int rc = SL_OK;
    if (l->n)
        rc = sl_facts_add(facts, SL_FACT_WARNING, "",
                          "%s of MPI are left by processes that are dead, such as %.300s: remove "
                          "them (rm -r)",
                          SL_PLURAL(l->n, "file"), l->path[0]);
    free(l);
    return rc;
}
