/*
 * runtime_dir.c - finding, entering and holding the runtime directory.
 *
 * PROBLEM. Whoever may write to control.sock commands the daemon, so the directory is the lock on
 * the door: it must be the user's own and closed to all others, also below /tmp, where anybody can
 * have put a directory or a link of that name. And a daemon can die at any instruction, so no file
 * that it leaves may keep the next one out.
 *
 * DESIGN. The directory is opened without following a link, and what was opened is looked at
 * (owner, mode); in a sticky /tmp nobody else can then exchange it. A daemon that lives holds a
 * lock of the open file description on daemon.lock: the kernel lets it go with the process, and a
 * client can ask for it (F_OFD_GETLK) without taking it, so that looking never keeps a daemon from
 * starting.
 *
 * The text of the lock file is written in one piece and cut to length afterwards: a reader sees the
 * old text or the new one, perhaps with old characters behind the new line, which it does not read.
 */
#include "common/bus/runtime_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/bus/bus.h"

#define LOCK_NAME    "daemon.lock"
#define CONTROL_NAME "control.sock" // the longest of the sockets' names
#define STATS_NAME   "stats.sock"

enum { LOCK_TEXT_BYTES = 128, NAME_WAIT_MS = 5000 };

// --- which directory -----------------------------------------------------------------------------

// Absolute, without empty parts, "." and a slash at the end. Links are left as they are.
static int make_absolute(const char *path, char out[SL_RUNTIME_DIR_BYTES])
{
    char whole[2 * SL_RUNTIME_DIR_BYTES];
    size_t n = 0;
    if (path[0] != '/') {
        if (!getcwd(whole, SL_RUNTIME_DIR_BYTES))
            return sl_fail_errno(SL_ESYS, errno, "runtime directory '%s': asking where we are",
                                 path);
        n = strlen(whole);
        whole[n++] = '/';
    }
    size_t rest = strlen(path);
    if (rest >= sizeof whole - n)
        return sl_fail(SL_ERANGE, "runtime directory: a path of %zu bytes is too long", rest);
    memcpy(whole + n, path, rest + 1);

    size_t used = 0;
    for (const char *part = whole; *part;) {
        size_t bytes = strcspn(part, "/");
        if (bytes > 0 && !(bytes == 1 && part[0] == '.')) {
            if (used + bytes + 2 > SL_RUNTIME_DIR_BYTES)
                return sl_fail(SL_ERANGE, "runtime directory: a path of %zu bytes is too long",
                               strlen(whole));
            out[used++] = '/';
            memcpy(out + used, part, bytes);
            used += bytes;
        }
        part += bytes + (part[bytes] == '/');
    }
    if (used == 0)
        out[used++] = '/';
    out[used] = '\0';
    return SL_OK;
}

// A session's own directory; what sudo or a container left in the environment is none.
static bool is_session_dir(const char *path)
{
    struct stat st;
    return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

struct place {
    char dir[SL_RUNTIME_DIR_BYTES];
    const char *from; // for messages
};

enum { N_PLACES = 3 };

// Where a daemon is that was told nothing: one that was started in a session and one that cron,
// sudo or a container has started do not see the same environment. How many there are.
static uint32_t usual_places(struct place places[N_PLACES])
{
    char session[64];
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    uint32_t n = 0;
    if (is_session_dir(xdg)) {
        snprintf(places[n].dir, sizeof places[n].dir, "%s/sluice", xdg);
        places[n++].from = " (XDG_RUNTIME_DIR)";
    }
    snprintf(places[n].dir, sizeof places[n].dir, "/tmp/sluice-%u", (unsigned)geteuid());
    places[n++].from = "";
    snprintf(session, sizeof session, "/run/user/%u", (unsigned)geteuid());
    if (is_session_dir(session) && !(xdg && strcmp(session, xdg) == 0)) {
        snprintf(places[n].dir, sizeof places[n].dir, "%s/sluice", session);
        places[n++].from = "";
    }
    return n;
}

uint32_t sl_runtime_dir_choose(const char *const *dirs, uint32_t n)
{
    struct sl_runtime_holder holder;
    for (uint32_t i = 0; i < n; i++)
        if (sl_runtime_dir_look(dirs[i], &holder) == SL_OK && holder.alive)
            return i;
    return 0;
}

int sl_runtime_dir_find(const char *given, char out[SL_RUNTIME_DIR_BYTES])
{
    struct place places[N_PLACES];
    const char *from = "", *dirs[N_PLACES];
    const char *want = given;
    if (!want || !*want) {
        want = getenv("SLUICE_RUNTIME_DIR");
        from = " (SLUICE_RUNTIME_DIR)";
    }
    if (!want || !*want) {
        uint32_t n = usual_places(places);
        for (uint32_t i = 0; i < n; i++)
            dirs[i] = places[i].dir;
        const struct place *chosen = &places[sl_runtime_dir_choose(dirs, n)];
        want = chosen->dir;
        from = chosen->from;
    }
    SL_TRY(make_absolute(want, out));
    size_t bytes = strlen(out) + 1 + strlen(CONTROL_NAME);
    if (bytes > SL_RUNTIME_SOCKET_MAX)
        return sl_fail(SL_ERANGE,
                       "runtime directory '%s'%s: the socket %s in it would have a name of %zu "
                       "bytes, and a Unix socket has at most %d: name a directory of at most %d "
                       "bytes, with --runtime-dir or SLUICE_RUNTIME_DIR",
                       out, from, CONTROL_NAME, bytes, SL_RUNTIME_SOCKET_MAX,
                       SL_RUNTIME_SOCKET_MAX - 1 - (int)strlen(CONTROL_NAME));
    return SL_OK;
}

void sl_runtime_dir_endpoint(const char *dir, const char *socket, char *out, size_t bytes)
{
    snprintf(out, bytes, "ipc://%s/%s", dir, socket);
}

// --- entering it ---------------------------------------------------------------------------------

// The directory's descriptor in *fd; -1 when there is none.
static int enter(const char *dir, int *fd)
{
    struct stat st;
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        return sl_fail(SL_ENOENT, "runtime directory '%s': there is none", dir);
    if (*fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return sl_fail(SL_EACCESS,
                       "runtime directory '%s': it is a link or a file, wanted a directory of "
                       "mode 0700: remove it, or name one of your own with --runtime-dir DIR, or "
                       "for daemon and commands alike with SLUICE_RUNTIME_DIR=DIR",
                       dir);
    if (*fd < 0)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_ESYS, errno,
                             "runtime directory '%s'", dir);
    int rc = SL_OK;
    if (fstat(*fd, &st) != 0)
        rc = sl_fail_errno(SL_ESYS, errno, "runtime directory '%s'", dir);
    else if (st.st_uid != geteuid())
        rc = sl_fail(SL_EACCESS,
                     "runtime directory '%s': it belongs to user %u, and this process is user %u: "
                     "name one of your own with --runtime-dir DIR, or for daemon and commands "
                     "alike with SLUICE_RUNTIME_DIR=DIR",
                     dir, (unsigned)st.st_uid, (unsigned)geteuid());
    else if (st.st_mode & 077)
        rc = sl_fail(SL_EACCESS,
                     "runtime directory '%s': its mode is %04o, so others may enter it; wanted "
                     "0700: chmod 700 '%s'",
                     dir, (unsigned)(st.st_mode & 07777), dir);
    if (rc < 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

// --- the lock ------------------------------------------------------------------------------------

static void read_holder(int lock_fd, struct sl_runtime_holder *out)
{
    char text[LOCK_TEXT_BYTES];
    long pid = 0;
    unsigned protocol = 0;
    char version[sizeof out->version] = "";
    ssize_t n = pread(lock_fd, text, sizeof text - 1, 0);
    *out = (struct sl_runtime_holder){0};
    if (n <= 0)
        return;
    text[n] = '\0';
    if (sscanf(text, "%ld %u %31s", &pid, &protocol, version) < 2 || pid <= 0)
        return; // a daemon that died before it wrote, or somebody's edit
    out->pid = (pid_t)pid;
    out->protocol = protocol;
    memcpy(out->version, version, sizeof version);
}

static int write_holder(int lock_fd, const char *version)
{
    char text[LOCK_TEXT_BYTES];
    int n =
        snprintf(text, sizeof text, "%ld %u %.31s\n", (long)getpid(), SL_PROTOCOL_VERSION, version);
    if (pwrite(lock_fd, text, (size_t)n, 0) != n)
        return sl_fail_errno(SL_EIO, errno, "writing");
    if (ftruncate(lock_fd, n) != 0)
        return sl_fail_errno(SL_EIO, errno, "truncating");
    return SL_OK;
}

// Whether somebody holds the lock, and who. A daemon that begins has the lock a moment before it
// has written its name, and no event tells of that: looked for each millisecond, then alone.
static int ask_holder(int fd, struct sl_runtime_holder *out)
{
    const struct timespec a_moment = {.tv_nsec = 1000000};
    for (int i = 0; i < NAME_WAIT_MS; i++) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_OFD_GETLK, &whole) != 0)
            return -1;
        read_holder(fd, out);
        out->alive = whole.l_type != F_UNLCK;
        if (!out->alive || out->pid)
            break;
        nanosleep(&a_moment, NULL);
    }
    return 0;
}

int sl_runtime_dir_look(const char *dir, struct sl_runtime_holder *out)
{
    int dir_fd;
    *out = (struct sl_runtime_holder){0};
    SL_TRY(enter(dir, &dir_fd));
    int fd = openat(dir_fd, LOCK_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int err = errno;
    close(dir_fd);
    if (fd < 0 && err == ENOENT)
        return sl_fail(SL_ENOENT, "runtime directory '%s': no daemon has used it", dir);
    if (fd < 0)
        return sl_fail_errno(SL_EACCESS, err, "'%s/%s'", dir, LOCK_NAME);
    int rc = ask_holder(fd, out);
    err = errno;
    close(fd);
    if (rc != 0)
        return sl_fail_errno(SL_ESYS, err, "'%s/%s': asking who holds it", dir, LOCK_NAME);
    return SL_OK;
}

static int remove_sockets(int dir_fd, const char *dir)
{
    static const char *const names[] = {CONTROL_NAME, STATS_NAME};
    for (int i = 0; i < 2; i++)
        if (unlinkat(dir_fd, names[i], 0) != 0 && errno != ENOENT)
            return sl_fail_errno(SL_EACCESS, errno,
                                 "runtime directory '%s': removing %s, which another daemon left",
                                 dir, names[i]);
    return SL_OK;
}

static int take_lock(int dir_fd, const char *dir, const char *version, int *out)
{
    int rc;
    int fd = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sl_fail_errno(SL_EACCESS, errno, "'%s/%s'", dir, LOCK_NAME);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        struct sl_runtime_holder holder;
        if (errno != EAGAIN && errno != EACCES) {
            rc = sl_fail_errno(SL_ESYS, errno, "'%s/%s': locking it", dir, LOCK_NAME);
            goto out;
        }
        read_holder(fd, &holder);
        rc = sl_fail(SL_EEXIST,
                     "runtime directory '%s': a daemon lives there already, process %ld, version "
                     "%s: talk to that one, stop it with 'kill %ld', or name another directory "
                     "with --runtime-dir",
                     dir, (long)holder.pid, holder.version[0] ? holder.version : "unknown",
                     (long)holder.pid);
        goto out;
    }
    rc = write_holder(fd, version);
    if (rc < 0) {
        sl_fail_prefix(rc, "'%s/%s'", dir, LOCK_NAME);
        goto out;
    }
    SL_TRY_OUT(remove_sockets(dir_fd, dir));
    *out = fd;
    return SL_OK;
out:
    close(fd);
    return rc;
}

int sl_runtime_dir_take(const char *dir, const char *version)
{
    int dir_fd, lock_fd = -1;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return sl_fail_errno(errno == ENOENT || errno == ENOTDIR ? SL_ENOENT : SL_EACCESS, errno,
                             "runtime directory '%s': making it (the directory above it must be "
                             "there, and yours to write)",
                             dir);
    SL_TRY(enter(dir, &dir_fd));
    int rc = take_lock(dir_fd, dir, version, &lock_fd);
    close(dir_fd);
    return rc < 0 ? rc : lock_fd;
}
