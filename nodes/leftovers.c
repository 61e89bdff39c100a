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

struct leftovers {
    char first[PATH_MAX];
    unsigned n;
    long owner; // of a session: the process that made it; 0: not told
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// Calls visit(l, folder/name, name) for what is in a folder; nothing where it cannot be read.
static void walk(const char *folder, void (*visit)(struct leftovers *, const char *, const char *),
                 struct leftovers *l)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < PATH_MAX)
            visit(l, path, e->d_name);
    }
    if (dir)
        closedir(dir);
}

static void count(struct leftovers *l, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || (geteuid() != 0 && st.st_uid != geteuid()))
        return;
    if (l->n++ == 0)
        snprintf(l->first, sizeof l->first, "%s", path);
}

// Whether the process of this folder of /proc has the file mapped.
static bool maps(const char *process, const char *path)
{
    char name[64], line[PATH_MAX + 128];
    bool found = false;
    snprintf(name, sizeof name, "/proc/%.20s/maps", process);
    FILE *file = fopen(name, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *mapped = strchr(line, '/');
        found = mapped && strcmp(mapped, path) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static bool is_mapped(const char *path)
{
    bool found = false;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = isdigit((unsigned char)e->d_name[0]) && maps(e->d_name, path);
    if (dir)
        closedir(dir);
    return found;
}

static void visit_segment(struct leftovers *l, const char *path, const char *name)
{
    static const char *const kinds[] = {"vader_segment.", "sm_segment.", "mpich_shar_tmp",
                                        "ucx_shm_posix_"};
    for (size_t i = 0; i < SL_COUNT_OF(kinds); i++)
        if (begins(name, kinds[i]) && !is_mapped(path))
            count(l, path);
}

// A number that ends a name; 0 where none does.
static long number_of(const char *digits)
{
    char *end;
    const long n = strtol(digits, &end, 10);
    return isdigit((unsigned char)*digits) && !*end ? n : 0;
}

// pmix_dstor_KIND_N in a session: process N has made it.
static void visit_store(struct leftovers *l, const char *path, const char *name)
{
    (void)path;
    if (begins(name, "pmix_dstor_"))
        l->owner = number_of(strrchr(name, '_') + 1);
}

// Also of a process that has ended and that nobody has waited for yet.
static bool is_dead(long pid)
{
    char name[64], line[256] = "";
    if (kill((pid_t)pid, 0) != 0)
        return errno == ESRCH;
    snprintf(name, sizeof name, "/proc/%ld/stat", pid);
    FILE *file = fopen(name, "re");
    const char *at = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    return at && strncmp(at, ") Z", 3) == 0;
}

static void visit_session(struct leftovers *l, const char *path, const char *name)
{
    l->owner = begins(name, "pid.") ? number_of(name + 4) : 0;
    if (begins(name, "jf."))
        walk(path, visit_store, l);
    if (l->owner > 0 && is_dead(l->owner))
        count(l, path);
}

// Those of this host alone: other hosts may have the same folder of temporary files.
static void visit_sessions(struct leftovers *l, const char *path, const char *name)
{
    char host[HOST_NAME_MAX + 1] = "", mine[HOST_NAME_MAX + 8];
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    snprintf(mine, sizeof mine, "ompi.%s.", host);
    if (begins(name, mine))
        walk(path, visit_session, l);
}

int sl_leftovers_look(const char *shm, const char *temp, struct sl_facts *facts)
{
    struct leftovers l = {.n = 0};
    walk(shm, visit_segment, &l);
    walk(temp, visit_sessions, &l);
    return l.n == 0 ? SL_OK
                    : sl_facts_add(facts, SL_FACT_WARNING, "",
                                   "%s of MPI left by processes that are dead, such as %.300s: "
                                   "remove what is left (rm -r)",
                                   SL_PLURAL(l.n, "file"), l.first);
}
