#include "broker/rundir/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/rundir/checkpoint.h"
#include "broker/workers/exit_status.h"
#include "broker/workers/run_jobs.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/atomic_file.h"

// The directory that holds `path`; "." for a bare name.
static void parent_of(const char *path, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", path);
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash)
        snprintf(out, bytes, ".");
    else
        *(slash == out ? slash + 1 : slash) = '\0';
}

// --- what is there -------------------------------------------------------------------------------

#define REPORT "report.json"

// BEGINS: it is there from the beginning of a run on, whatever becomes of it; RUN: it says that a
// run has been there; WHOLE: it appears whole, so that a broker that is killed may leave a part.
enum { BEGINS = 1, RUN = 2, WHOLE = 4 };

static const struct {
    const char *name;
    unsigned is;
} files[] = {
    {"config.json", BEGINS | RUN | WHOLE},
    {"metrics.jsonl", BEGINS | WHOLE},
    {"events.jsonl", BEGINS},
    {"log", BEGINS},
    {"checkpoints", BEGINS},
    {"tensorboard", BEGINS},
    {REPORT, RUN | WHOLE},
    {"model.safetensors", RUN | WHOLE},
    {"model.best.safetensors", WHOLE},
    {"embedding.npy", WHOLE},
    {"embedding.best.npy", WHOLE},
};

static bool is_of_a_beginning(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        if (files[i].is & BEGINS && strcmp(name, files[i].name) == 0)
            return true;
    if (strncmp(name, SL_RUNDIR_OF_NODE, strlen(SL_RUNDIR_OF_NODE)) == 0)
        return true;
    return name[0] == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0; // atomic_file.h
}

// A file of ours that a killed broker has not finished: ".report.json.4711-3.tmp".
static bool is_half_written(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(files); i++) {
        size_t n = strlen(files[i].name);
        long pid;
        unsigned serial;
        int end = 0;
        if (files[i].is & WHOLE && name[0] == '.' && strncmp(name + 1, files[i].name, n) == 0 &&
            sscanf(name + 1 + n, ".%ld-%u.tmp%n", &pid, &serial, &end) == 2 && end > 0 &&
            name[1 + n + (size_t)end] == '\0')
            return true;
    }
    return false;
}

// What killed runs have left half written. The holder of the directory's lock may remove it.
static void clear_leftovers(const char *path)
{
    char file[4096 + 256];
    const struct dirent *entry;
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (!is_half_written(entry->d_name))
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        unlink(file);
    }
    if (dir)
        closedir(dir);
    sl_checkpoint_clear_leftovers(path);
}

// The first entry of a directory that `expected` does not expect; "" without one.
static int find_unexpected(const char *path, bool (*expected)(const char *), char found[256],
                           bool *any)
{
    const struct dirent *entry;
    DIR *dir = opendir(path);
    *any = false;
    found[0] = '\0';
    if (!dir)
        return sl_fail_errno(SL_EACCESS, errno, "output: reading directory '%s'", path);
    while (!found[0] && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *any = true;
        if (!expected || !expected(entry->d_name))
            snprintf(found, 256, "%s", entry->d_name);
    }
    closedir(dir);
    return SL_OK;
}

static int refuse_earlier(const char *path, const char *found)
{
    return sl_fail(SL_EEXIST,
                   "output: '%s' holds an earlier run (found %s): choose another directory with "
                   "--set output=DIR, or remove this one",
                   path, found);
}

static int refuse_filled(const char *path, const char *found)
{
    return sl_fail(SL_EEXIST,
                   "output: directory '%s' is not empty (found '%s'), wanted a new or empty one: "
                   "choose another with --set output=DIR",
                   path, found);
}

static bool has_file(const char *path, const char *name)
{
    char file[4200];
    snprintf(file, sizeof file, "%s/%s", path, name);
    return access(file, F_OK) == 0;
}

bool sl_rundir_is_reported(const char *path)
{
    return has_file(path, REPORT);
}

static int check_empty(const char *path)
{
    char found[256];
    bool any;
    for (size_t i = 0; i < SL_COUNT_OF(files); i++)
        if (files[i].is & RUN && has_file(path, files[i].name))
            return refuse_earlier(path, files[i].name);
    SL_TRY(find_unexpected(path, NULL, found, &any));
    return any ? refuse_filled(path, found) : SL_OK;
}

static int look_inside(const char *path, enum sl_rundir_content *content)
{
    struct sl_checkpoint_list list;
    char found[256];
    bool any;
    SL_TRY(sl_checkpoint_list(path, &list));
    bool checkpoints = list.n > 0;
    sl_checkpoint_list_fini(&list);
    *content = SL_RUNDIR_CHECKPOINTS;
    if (checkpoints)
        return SL_OK;
    if (has_file(path, "report.json") || has_file(path, "model.safetensors"))
        return check_empty(path);
    SL_TRY(find_unexpected(path, is_of_a_beginning, found, &any));
    *content = any ? SL_RUNDIR_BEGUN : SL_RUNDIR_NEW;
    return found[0] ? refuse_filled(path, found) : SL_OK;
}

// --- the lock ------------------------------------------------------------------------------------

enum {
    ENDING_WAIT_MS = 30000,
    TELL_WAIT_MS = 200, // a check of another job has the directory for a moment only
    LOOK_MS = 500,      // between two looks at whether the job waited for has begun to work
    EVENTS_WAIT_MS = 1000,
    COMMAND_BYTES = 16384,
};

int sl_rundir_grace_ms = 500;

// In a process of its own: waits for the lock, as long as its parent lives.
_Noreturn static void wait_for_lock(int fd, int how, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent && flock(fd, how) != 0 && errno == EINTR)
        ;
    _exit(0);
}

/*
 * Whether the file is locked now (LOCK_EX or LOCK_SH), for which this waits so long. flock() has no
 * bound, and an interval timer would be the whole process's: a child waits in it. The lock is of
 * the open file, which both have, so it is the parent's when the child is gone. File systems
 * without locks are taken as they are: then nobody notices a second job.
 */
static bool lock_within(int fd, int how, int wait_ms)
{
    if (flock(fd, how | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
        return true;
    pid_t self = getpid(), pid = wait_ms > 0 ? fork() : -1;
    if (pid == 0)
        wait_for_lock(fd, how, self);
    if (pid < 0)
        return false;
    struct pollfd end = {.fd = sl_exit_status_open(pid), .events = POLLIN};
    uint64_t now = sl_now_ns(), until = now + (uint64_t)wait_ms * 1000000u;
    while (now < until && poll(&end, 1, (int)sl_div_up(until - now, 1000000u)) < 0 &&
           errno == EINTR)
        now = sl_now_ns();
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (end.fd >= 0)
        close(end.fd);
    return flock(fd, how | LOCK_NB) == 0;
}

// Who has locked a directory, from the kernel's list; 0 when it does not say.
static pid_t find_holder(int fd)
{
    struct stat st;
    char line[256];
    FILE *f = fstat(fd, &st) == 0 ? fopen("/proc/locks", "re") : NULL;
    pid_t found = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        // "1: FLOCK  ADVISORY  WRITE 2342 08:02:131090 0 EOF"
        unsigned major_number, minor_number;
        unsigned long inode;
        int pid;
        if (sscanf(line, "%*s FLOCK %*s WRITE %d %x:%x:%lu", &pid, &major_number, &minor_number,
                   &inode) == 4 &&
            pid > 0 && inode == st.st_ino && major_number == major(st.st_dev) &&
            minor_number == minor(st.st_dev))
            found = pid;
    }
    if (f)
        fclose(f);
    return found;
}

// A broker says in its arguments which job it has: "job 3 'x' (process 12)".
static void describe_holder(struct sl_rundir_user *user)
{
    char path[64], text[COMMAND_BYTES + 1], name[128] = "", id[24] = "";
    snprintf(user->who, sizeof user->who, user->pid ? "process %d" : "another process",
             (int)user->pid);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)user->pid);
    FILE *f = user->pid ? fopen(path, "re") : NULL;
    if (!f)
        return;
    size_t n = fread(text, 1, COMMAND_BYTES, f);
    fclose(f);
    text[n] = '\0';
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        const char *value = at + strlen(at) + 1;
        if (value < text + n && strcmp(at, "--job") == 0)
            snprintf(name, sizeof name, "%s", value);
        else if (value < text + n && strcmp(at, "--id") == 0)
            snprintf(id, sizeof id, "%s", value);
    }
    if (!name[0])
        return;
    snprintf(user->who, sizeof user->who, "job %s%s'%s' (process %d)", id, id[0] ? " " : "", name,
             (int)user->pid);
    snprintf(user->word, sizeof user->word, "%s", id[0] ? id : name);
}

// A process that was killed keeps its locks until it is gone, which on a busy machine takes a while
// after its memory is.
static bool is_dying(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "re");
    bool has_memory = f && fgetc(f) != EOF;
    if (f)
        fclose(f);
    return !has_memory;
}

// A job has its events locked for as long as it is not ending, which is waited for so long. `fd`:
// the directory, which it has locked too.
static bool is_working(const char *path, int fd, int wait_ms)
{
    char file[4200];
    snprintf(file, sizeof file, "%s/events.jsonl", path);
    int events = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (events < 0)
        return false;
    pid_t holder = find_holder(fd);
    bool working = !(holder && is_dying(holder)) && !lock_within(events, LOCK_SH, wait_ms);
    close(events);
    return working && !(holder && is_dying(holder));
}

static void look_at_holder(int fd, bool working, struct sl_rundir_user *user)
{
    memset(user, 0, sizeof *user);
    user->ending = !working;
    user->pid = find_holder(fd);
    describe_holder(user);
}

static int refuse_used(const char *path, int fd, bool working, int64_t waited_ms)
{
    struct sl_rundir_user user;
    char since[64] = "";
    look_at_holder(fd, working, &user);
    if (waited_ms >= 1000)
        snprintf(since, sizeof since, " and not over after %d s", (int)(waited_ms / 1000));
    if (user.ending)
        return sl_fail(SL_EEXIST,
                       "output: '%s' is in use by %s, which is ending%s: try again later, or "
                       "choose another directory with --set output=DIR",
                       path, user.who, since);
    if (!user.word[0])
        return sl_fail(SL_EEXIST,
                       "output: '%s' is in use by a job that is running, %s: stop that one first, "
                       "or choose another directory with --set output=DIR",
                       path, user.who);
    return sl_fail(SL_EEXIST,
                   "output: '%s' is in use by a job that is running, %s: stop it first with "
                   "'sluice stop %s', or choose another directory with --set output=DIR",
                   path, user.who, user.word);
}

// Waits for who does not work, since it is ending or, as may turn out, only beginning.
static bool lock_after(const char *path, int fd, int wait_ms, bool *working)
{
    for (int left = wait_ms; left > 0 && !*working; left -= LOOK_MS) {
        if (lock_within(fd, LOCK_EX, SL_MIN(left, (int)LOOK_MS)))
            return true;
        *working = is_working(path, fd, 0);
    }
    return false;
}

// Locks the directory. Who is ending is waited for, up to wait_ms; a job that runs is SL_EEXIST as
// soon as that is sure.
static int lock_directory(const char *path, int wait_ms, sl_rundir_waits waits, int *out)
{
    struct sl_rundir_user user;
    *out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out < 0)
        return sl_fail_errno(SL_EACCESS, errno, "output: opening directory '%s'", path);
    if (lock_within(*out, LOCK_EX, 0))
        return SL_OK;
    bool working = is_working(path, *out, SL_MIN(wait_ms, sl_rundir_grace_ms));
    // Between the two looks it may have gone: its locks go one after the other.
    if (lock_within(*out, LOCK_EX, working ? 0 : SL_MIN(wait_ms, (int)TELL_WAIT_MS)))
        return SL_OK;
    if (!working && waits) {
        look_at_holder(*out, working, &user);
        waits(path, &user);
    }
    if (lock_after(path, *out, wait_ms, &working))
        return SL_OK;
    int rc = refuse_used(path, *out, working, working ? 0 : wait_ms);
    close(*out);
    *out = -1;
    return rc;
}

// root may write everywhere, as far as permissions go.
static bool is_of_the_kernel(const char *path)
{
    static const unsigned long kinds[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,   CGROUP_SUPER_MAGIC,
                                          CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
                                          DEVPTS_SUPER_MAGIC};
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return false;
    for (size_t i = 0; i < SL_COUNT_OF(kinds); i++)
        if ((unsigned long)fs.f_type == kinds[i])
            return true;
    return false;
}

static int check_writable_directory(const char *path, const char *what)
{
    struct stat st;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return sl_fail(SL_ENOENT,
                       "%s: there is no directory '%s': make it first, or choose another", what,
                       path);
    if (stat(path, &st) != 0)
        return sl_fail_errno(SL_EACCESS, errno, "%s: directory '%s'", what, path);
    if (!S_ISDIR(st.st_mode))
        return sl_fail(SL_EINVAL, "%s: '%s' is not a directory", what, path);
    if (access(path, W_OK | X_OK) != 0)
        return sl_fail_errno(SL_EACCESS, errno,
                             "%s: directory '%s' cannot be written: choose another place, or "
                             "change its permissions",
                             what, path);
    if (is_of_the_kernel(path))
        return sl_fail(SL_EACCESS,
                       "%s: directory '%s' is on a file system of the kernel's own, where nothing "
                       "can be kept: choose another place",
                       what, path);
    return SL_OK;
}

static int check_place(const char *path, bool *exists);

int sl_rundir_check(const char *path)
{
    bool exists;
    SL_TRY(check_place(path, &exists));
    return exists ? check_empty(path) : SL_OK;
}

int sl_rundir_check_place(const char *path)
{
    bool exists;
    return check_place(path, &exists);
}

int sl_rundir_examine(const char *path, sl_rundir_waits waits, enum sl_rundir_content *content)
{
    bool exists;
    int lock;
    *content = SL_RUNDIR_NEW;
    SL_TRY(check_place(path, &exists));
    if (!exists)
        return SL_OK;
    SL_TRY(lock_directory(path, ENDING_WAIT_MS, waits, &lock));
    int rc = look_inside(path, content);
    close(lock);
    return rc;
}

int sl_rundir_look(const char *path, enum sl_rundir_content *content)
{
    bool exists;
    *content = SL_RUNDIR_NEW;
    SL_TRY(check_place(path, &exists));
    return exists ? look_inside(path, content) : SL_OK;
}

// The nearest directory above `path` that is there.
static int nearest_above(const char *path, char above[4096])
{
    struct stat st;
    parent_of(path, above, 4096);
    while (stat(above, &st) != 0) {
        char next[4096];
        if (errno != ENOENT)
            return sl_fail_errno(errno == ENOTDIR ? SL_EINVAL : SL_EACCESS, errno,
                                 "output: '%s' for '%s'", above, path);
        parent_of(above, next, sizeof next);
        if (strcmp(next, above) == 0)
            break;
        memcpy(above, next, sizeof next);
    }
    return SL_OK;
}

static int check_place(const char *path, bool *exists)
{
    char above[4096];
    struct stat st;
    *exists = false;
    if (!*path)
        return sl_fail(SL_EINVAL, "output: the directory's name is empty");
    if (strlen(path) >= sizeof above - 64)
        return sl_fail(SL_EINVAL, "output: a name of %zu characters is too long", strlen(path));
    if (lstat(path, &st) == 0) {
        if (stat(path, &st) != 0)
            return sl_fail_errno(SL_EACCESS, errno, "output: '%s'", path);
        *exists = true;
        return check_writable_directory(path, "output");
    }
    if (errno != ENOENT)
        return sl_fail_errno(errno == ENOTDIR ? SL_EINVAL : SL_EACCESS, errno, "output: '%s'",
                             path);
    // The nearest directory above that exists must take the new ones.
    SL_TRY(nearest_above(path, above));
    return check_writable_directory(above, "output");
}

int sl_rundir_nameless(const char *path)
{
    char above[4096];
    struct stat st;
    snprintf(above, sizeof above, "%s", path);
    if (stat(path, &st) != 0)
        SL_TRY(nearest_above(path, above));
    int fd = sl_anon_file_open(above);
    if (fd < 0)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_EIO, errno,
                             "output: a file without a name in '%s'", above);
    return fd;
}

int sl_rundir_check_file(const char *path, const char *what)
{
    char above[4096];
    struct stat st;
    if (!*path || path[strlen(path) - 1] == '/')
        return sl_fail(SL_EINVAL, "%s: '%s' names no file", what, path);
    if (strlen(path) >= sizeof above - 64)
        return sl_fail(SL_EINVAL, "%s: a name of %zu characters is too long", what, strlen(path));
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return sl_fail(SL_EINVAL, "%s: '%s' is a directory, wanted a file", what, path);
        if (access(path, W_OK) != 0)
            return sl_fail_errno(SL_EACCESS, errno, "%s: '%s' cannot be written", what, path);
        if (!S_ISREG(st.st_mode))
            return SL_OK; // a device or a pipe is not replaced
    }
    // It is replaced as a whole, through a temporary file beside it.
    parent_of(path, above, sizeof above);
    return check_writable_directory(above, what);
}

// --- creation ------------------------------------------------------------------------------------

// Makes every missing directory on the way to `path`; *first is the length of the topmost one that
// was made, 0 when all were there.
static int make_directories(const char *path, size_t *first)
{
    char part[4096];
    size_t n = strlen(path);
    *first = 0;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) == 0) {
            if (!*first)
                *first = i;
        } else if (errno != EEXIST) {
            return sl_fail_errno(errno == EACCES || errno == EROFS ? SL_EACCESS : SL_EIO, errno,
                                 "output: creating directory '%s' (choose another place with "
                                 "--set output=DIR)",
                                 part);
        }
    }
    return SL_OK;
}

int sl_rundir_make_folder(const char *path)
{
    size_t first;
    return make_directories(path, &first);
}

// Undoes make_directories(), as far as they are empty.
static void remove_directories(const char *path, size_t first)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (size_t n = strlen(part); first && n >= first; n--) {
        if (part[n] != '\0' && part[n] != '/')
            continue;
        part[n] = '\0';
        if (rmdir(part) != 0 && errno != ENOENT)
            return;
    }
}

// metrics.jsonl begins with these lines; `flags` are for opening events.jsonl.
static int fill(struct sl_rundir *dir, const char *config_json, const char *metrics, int flags)
{
    char file[4200];
    sl_rundir_file(dir, "metrics.jsonl", file, sizeof file);
    SL_TRY(sl_atomic_file_write(file, metrics, strlen(metrics)));
    sl_rundir_file(dir, "events.jsonl", file, sizeof file);
    dir->working = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0666);
    if (dir->working < 0)
        return sl_fail_errno(SL_EIO, errno, "output: opening '%s'", file);
    // For is_working(). Who asks has it shared for a moment, and a process that dies may let go of
    // the directory before it lets go of this. Without locks nobody asks.
    lock_within(dir->working, LOCK_EX, EVENTS_WAIT_MS);
    sl_rundir_file(dir, "config.json", file, sizeof file);
    return sl_atomic_file_write(file, config_json, strlen(config_json));
}

static int make_log(const struct sl_rundir *dir)
{
    if (mkdir(dir->log, 0777) == 0 || errno == EEXIST)
        return SL_OK;
    return sl_fail_errno(SL_EIO, errno,
                         "output: creating directory '%s' (choose another place with --set "
                         "output=DIR)",
                         dir->log);
}

static void begin(struct sl_rundir *dir, const char *path)
{
    memset(dir, 0, sizeof *dir);
    snprintf(dir->path, sizeof dir->path, "%s", path);
    snprintf(dir->log, sizeof dir->log, "%s/log", path);
    dir->open = true;
    dir->lock = dir->working = -1;
}

// It is not the caller's after all.
static int give_up(struct sl_rundir *dir, int rc)
{
    sl_rundir_close(dir);
    memset(dir, 0, sizeof *dir);
    return rc;
}

int sl_rundir_create(struct sl_rundir *dir, const char *path, const char *config_json)
{
    size_t first = 0;
    bool exists;
    enum sl_rundir_content content = SL_RUNDIR_NEW;
    memset(dir, 0, sizeof *dir);
    SL_TRY(check_place(path, &exists));
    begin(dir, path);
    int rc = make_directories(path, &first);
    // The lock is the claim: of two jobs that chose the same directory one fails here, and removes
    // nothing of the other's.
    bool claimed = rc == SL_OK && (rc = lock_directory(path, 0, NULL, &dir->lock)) == SL_OK &&
                   (rc = look_inside(path, &content)) == SL_OK;
    if (claimed && content == SL_RUNDIR_CHECKPOINTS)
        rc = refuse_earlier(path, "checkpoints");
    claimed = claimed && rc == SL_OK;
    if (claimed)
        clear_leftovers(path);
    if (claimed && (rc = make_log(dir)) == SL_OK)
        rc = fill(dir, config_json, "", O_TRUNC);
    if (rc == SL_OK)
        return SL_OK;
    char file[4200];
    if (claimed && content == SL_RUNDIR_NEW) {
        unlink(sl_rundir_file(dir, "metrics.jsonl", file, sizeof file));
        unlink(sl_rundir_file(dir, "events.jsonl", file, sizeof file));
        unlink(sl_rundir_file(dir, "config.json", file, sizeof file));
        rmdir(dir->log);
    }
    rc = give_up(dir, rc);
    remove_directories(path, first);
    return rc;
}

// A reader that finds report.json takes the run for over, however this part of it ends.
static int set_report_aside(const char *path)
{
    char from[4200], to[4200];
    snprintf(from, sizeof from, "%s/" REPORT, path);
    snprintf(to, sizeof to, "%s/report.before.json", path);
    if (rename(from, to) != 0 && errno != ENOENT)
        return sl_fail_errno(SL_EIO, errno, "output: setting '%s' aside as '%s'", from, to);
    return SL_OK;
}

int sl_rundir_reopen(struct sl_rundir *dir, const char *path, const char *config_json,
                     const char *metrics, const char *checkpoint)
{
    begin(dir, path);
    int rc = lock_directory(path, 0, NULL, &dir->lock);
    if (rc < 0)
        return give_up(dir, rc);
    clear_leftovers(path);
    rc = sl_checkpoint_abandon_newer(path, checkpoint, &dir->n_abandoned);
    if (rc == SL_OK)
        rc = set_report_aside(path);
    if (rc == SL_OK)
        rc = make_log(dir);
    if (rc == SL_OK)
        rc = fill(dir, config_json, metrics, 0);
    return rc == SL_OK ? SL_OK : give_up(dir, rc);
}

char *sl_rundir_file(const struct sl_rundir *dir, const char *name, char *buf, size_t bytes)
{
    snprintf(buf, bytes, "%s/%s", dir->path, name);
    return buf;
}

void sl_rundir_end(const struct sl_rundir *dir)
{
    if (dir->open)
        flock(dir->working, LOCK_UN);
}

void sl_rundir_close(struct sl_rundir *dir)
{
    if (!dir->open)
        return;
    if (dir->working >= 0)
        close(dir->working);
    if (dir->lock >= 0)
        close(dir->lock);
    dir->open = false;
}
