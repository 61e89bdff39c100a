/*
 * curve_keys.c - key files: read with suspicion, written so that nobody else ever sees them.
 *
 * A secret must not leak through a mode that was wrong for an instant: files are made 0600 with
 * O_EXCL, and daemon.key is replaced by renaming a complete new file over it, so that a crash
 * leaves the old list of clients or the new one. Two keygens in one directory take turns (flock on
 * the directory), or one of two clients would be lost.
 */
#include "common/bus/curve_keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/error.h"

#define DAEMON_FILE "daemon.key"

enum {
    KEY_CHARS = SL_CURVE_KEY_TEXT - 1,
    KEY_BYTES = 32,
    FILE_BYTES_MAX = 64 << 10,
    NAME_CHARS_MAX = 64,
    HEAD_BYTES = 512,
};

// --- reading -------------------------------------------------------------------------------------

// A whole file of at most FILE_BYTES_MAX, zero-terminated (owned); nobody else's to read.
static int read_private(int dir_fd, const char *name, const char *shown, char **out, size_t *n)
{
    int rc;
    struct stat st;
    char *text = NULL;
    *out = NULL;
    // O_NONBLOCK: a pipe of that name is refused and not waited for.
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sl_fail_errno(errno == ENOENT ? SL_ENOENT : SL_EACCESS, errno, "key file '%s'",
                             shown);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) {
        rc = sl_fail(SL_EFORMAT,
                     "key file '%s': wanted a file of at most %d bytes, as 'sluice keygen' makes",
                     shown, FILE_BYTES_MAX);
        goto out;
    }
    if (st.st_mode & 077) {
        rc = sl_fail(SL_EACCESS,
                     "key file '%s': its mode is %04o, so others may read or change it: chmod 600 "
                     "'%s', and make new keys if somebody may have seen it",
                     shown, (unsigned)(st.st_mode & 07777), shown);
        goto out;
    }
    text = malloc((size_t)st.st_size + 1);
    if (!text) {
        rc = sl_fail(SL_ENOMEM, "key file '%s': no memory", shown);
        goto out;
    }
    ssize_t got = read(fd, text, (size_t)st.st_size);
    if (got != st.st_size) {
        rc = sl_fail_errno(SL_EIO, got < 0 ? errno : EIO, "key file '%s': reading it", shown);
        goto out;
    }
    text[got] = '\0';
    *n = (size_t)got;
    *out = text;
    text = NULL;
    rc = SL_OK;
out:
    free(text);
    close(fd);
    return rc;
}

static void forget(char *text, size_t n)
{
    if (text)
        explicit_bzero(text, n);
    free(text);
}

// libzmq reads on when a character is none of Z85, so the characters are looked at here.
bool sl_curve_is_key(const char *text)
{
    uint8_t key[KEY_BYTES];
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".-:+=^!/*?&<>()[]{}@%$#", *c))
            return false;
    bool fits = strlen(text) == KEY_CHARS && zmq_z85_decode(key, text);
    explicit_bzero(key, sizeof key);
    return fits;
}

// "name = value" without the spaces around both; the value may contain '='. False: no such line.
static bool split_line(char *line, char **name, char **value)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    *name = line + strspn(line, " \t");
    *value = equals + 1 + strspn(equals + 1, " \t");
    (*name)[strcspn(*name, " \t")] = '\0';
    (*value)[strcspn(*value, " \t\r")] = '\0';
    return true;
}

static int take_line(struct sl_curve *keys, char *line, const char *path, int number)
{
    char *name, *value, *slot = NULL;
    if (line[strspn(line, " \t\r")] == '\0' || line[strspn(line, " \t")] == '#')
        return SL_OK;
    if (!split_line(line, &name, &value))
        return sl_fail(SL_EFORMAT, "key file '%s', line %d: wanted 'name = key'", path, number);
    if (strcmp(name, "public") == 0)
        slot = keys->public_key;
    else if (strcmp(name, "secret") == 0)
        slot = keys->secret_key;
    else if (strcmp(name, "daemon") == 0)
        slot = keys->daemon_key;
    else if (strcmp(name, "client") != 0)
        return sl_fail(SL_EFORMAT,
                       "key file '%s', line %d: '%.40s' is not known; wanted public, secret, "
                       "daemon or client",
                       path, number, name);
    else if (keys->n_clients == SL_CURVE_CLIENTS_MAX)
        return sl_fail(SL_ERANGE, "key file '%s', line %d: more than %d clients", path, number,
                       SL_CURVE_CLIENTS_MAX);
    else
        slot = keys->client[keys->n_clients++];
    if (slot[0])
        return sl_fail(SL_EFORMAT, "key file '%s', line %d: '%s' is there a second time", path,
                       number, name);
    if (!sl_curve_is_key(value))
        return sl_fail(SL_EFORMAT, // the value may be a secret: not shown
                       "key file '%s', line %d: the key of '%s' is not %d characters of Z85", path,
                       number, name, KEY_CHARS);
    memcpy(slot, value, KEY_CHARS + 1);
    return SL_OK;
}

static int check_pair(const struct sl_curve *keys, const char *path)
{
    char derived[SL_CURVE_KEY_TEXT];
    if (!keys->public_key[0] || !keys->secret_key[0])
        return sl_fail(SL_EFORMAT, "key file '%s': a line '%s = ...' is missing", path,
                       keys->public_key[0] ? "secret" : "public");
    if (keys->daemon_key[0] && keys->n_clients)
        return sl_fail(SL_EFORMAT,
                       "key file '%s': it has 'daemon' (a client's file) and 'client' (a daemon's)",
                       path);
    if (zmq_curve_public(derived, keys->secret_key) != 0)
        return sl_fail_errno(SL_EUNSUPPORTED, errno, "key file '%s': this ZeroMQ has no CURVE",
                             path);
    if (strcmp(derived, keys->public_key) != 0)
        return sl_fail(SL_EFORMAT, "key file '%s': public and secret are not of one pair", path);
    return SL_OK;
}

static int read_keys(int dir_fd, const char *name, const char *shown, struct sl_curve *out,
                     char **text, size_t *n)
{
    memset(out, 0, sizeof *out);
    SL_TRY(read_private(dir_fd, name, shown, text, n));
    int rc = SL_OK, number = 0;
    char *copy = strdup(*text);
    if (!copy)
        rc = sl_fail(SL_ENOMEM, "key file '%s': no memory", shown);
    for (char *line = copy; rc == SL_OK && line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        rc = take_line(out, line, shown, ++number);
        line = end ? end + 1 : NULL;
    }
    if (rc == SL_OK)
        rc = check_pair(out, shown);
    forget(copy, copy ? *n : 0);
    if (rc < 0)
        explicit_bzero(out, sizeof *out);
    return rc;
}

int sl_curve_read(const char *path, struct sl_curve *out)
{
    char *text = NULL;
    size_t n = 0;
    int rc = read_keys(AT_FDCWD, path, path, out, &text, &n);
    forget(text, n);
    return rc;
}

// --- writing -------------------------------------------------------------------------------------

static int write_private(int dir_fd, const char *name, const char *shown, const char *text)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return sl_fail(SL_EEXIST,
                       "key file '%s' is there already: name another client with --client, or "
                       "remove it (and its line in " DAEMON_FILE ")",
                       shown);
    if (fd < 0)
        return sl_fail_errno(SL_EACCESS, errno, "key file '%s': making it", shown);
    size_t n = strlen(text);
    ssize_t put = write(fd, text, n);
    int err = put < 0 ? errno : ENOSPC;
    bool whole = put == (ssize_t)n && fsync(fd) == 0;
    if (put == (ssize_t)n && !whole)
        err = errno;
    close(fd);
    if (whole)
        return SL_OK;
    unlinkat(dir_fd, name, 0);
    return sl_fail_errno(SL_EIO, err, "key file '%s': writing it", shown);
}

struct maker {
    int dir_fd;
    const char *client;
    char client_file[NAME_CHARS_MAX + 8];
    char daemon_path[4096], client_path[4096]; // for messages
    struct sl_curve daemon, fresh;             // fresh: the new client's pair
    char *old_text;                            // of daemon.key; NULL: there is none yet
    size_t old_bytes;
};

static int make_pair(char public_key[SL_CURVE_KEY_TEXT], char secret_key[SL_CURVE_KEY_TEXT])
{
    if (zmq_curve_keypair(public_key, secret_key) == 0)
        return SL_OK;
    return sl_fail_errno(SL_EUNSUPPORTED, errno,
                         "making a pair of keys: this ZeroMQ was built without CURVE");
}

static int write_client(struct maker *m)
{
    char text[HEAD_BYTES + 4 * SL_CURVE_KEY_TEXT];
    snprintf(text, sizeof text,
             "# sluice: keys of the client '%s'. Keep this file secret (0600); it goes to the\n"
             "# client's machine and nowhere else.\n"
             "public = %s\nsecret = %s\ndaemon = %s\n",
             m->client, m->fresh.public_key, m->fresh.secret_key, m->daemon.public_key);
    int rc = write_private(m->dir_fd, m->client_file, m->client_path, text);
    explicit_bzero(text, sizeof text);
    return rc;
}

static int write_daemon(struct maker *m)
{
    char head[HEAD_BYTES + 2 * SL_CURVE_KEY_TEXT] = "";
    if (!m->old_text)
        snprintf(head, sizeof head,
                 "# sluice: keys of a daemon and the clients that may connect to it. Keep this "
                 "file\n# secret (0600). A line taken out keeps that client out, from the "
                 "daemon's next start on.\n"
                 "public = %s\nsecret = %s\n",
                 m->daemon.public_key, m->daemon.secret_key);
    size_t bytes = sizeof head + m->old_bytes + NAME_CHARS_MAX + 4 * SL_CURVE_KEY_TEXT;
    char *text = malloc(bytes);
    if (!text)
        return sl_fail(SL_ENOMEM, "key file '%s': no memory", m->daemon_path);
    bool open_line = m->old_bytes && m->old_text[m->old_bytes - 1] != '\n';
    snprintf(text, bytes, "%s%s%s# %s\nclient = %s\n", head, m->old_text ? m->old_text : "",
             open_line ? "\n" : "", m->client, m->fresh.public_key);
    unlinkat(m->dir_fd, DAEMON_FILE ".new", 0); // of a keygen that was killed
    int rc = write_private(m->dir_fd, DAEMON_FILE ".new", m->daemon_path, text);
    forget(text, bytes);
    explicit_bzero(head, sizeof head);
    if (rc == SL_OK && renameat(m->dir_fd, DAEMON_FILE ".new", m->dir_fd, DAEMON_FILE) != 0) {
        rc = sl_fail_errno(SL_EIO, errno, "key file '%s': putting it in place", m->daemon_path);
        unlinkat(m->dir_fd, DAEMON_FILE ".new", 0);
    }
    return rc;
}

static int make_keys(struct maker *m)
{
    struct stat st;
    if (fstatat(m->dir_fd, m->client_file, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return sl_fail(SL_EEXIST,
                       "key file '%s' is there already: name another client with --client, or "
                       "remove it (and its line in " DAEMON_FILE ")",
                       m->client_path);
    int rc =
        read_keys(m->dir_fd, DAEMON_FILE, m->daemon_path, &m->daemon, &m->old_text, &m->old_bytes);
    if (rc == SL_ENOENT)
        rc = make_pair(m->daemon.public_key, m->daemon.secret_key);
    else if (rc == SL_OK && m->daemon.daemon_key[0])
        rc = sl_fail(SL_EFORMAT, "key file '%s': it is a client's", m->daemon_path);
    else if (rc == SL_OK && m->daemon.n_clients == SL_CURVE_CLIENTS_MAX)
        rc = sl_fail(SL_ERANGE, "key file '%s': it has %d clients already, the most there can be",
                     m->daemon_path, SL_CURVE_CLIENTS_MAX);
    SL_TRY(rc);
    SL_TRY(make_pair(m->fresh.public_key, m->fresh.secret_key));
    // The client's file first: a list that names a key which nobody has would be worse.
    SL_TRY(write_client(m));
    rc = write_daemon(m);
    if (rc < 0)
        unlinkat(m->dir_fd, m->client_file, 0);
    return rc;
}

static int check_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    if (n > 0 && n <= NAME_CHARS_MAX && name[n] == '\0' && name[0] != '.' &&
        strcmp(name, "daemon") != 0)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "client's name '%.80s': wanted 1 to %d letters, digits, '-', '_' and '.', not "
                   "'daemon' and no '.' in front",
                   name, NAME_CHARS_MAX);
}

int sl_curve_generate(const char *directory, const char *client_name)
{
    struct maker m = {.client = client_name ? client_name : "client"};
    SL_TRY(check_name(m.client));
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return sl_fail_errno(errno == ENOENT ? SL_ENOENT : SL_EACCESS, errno,
                             "key directory '%s': making it (the directory above it must be there)",
                             directory);
    m.dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m.dir_fd < 0)
        return sl_fail_errno(SL_EACCESS, errno, "key directory '%s'", directory);
    snprintf(m.client_file, sizeof m.client_file, "%s.key", m.client);
    snprintf(m.client_path, sizeof m.client_path, "%s/%s", directory, m.client_file);
    snprintf(m.daemon_path, sizeof m.daemon_path, "%s/" DAEMON_FILE, directory);
    int rc;
    while ((rc = flock(m.dir_fd, LOCK_EX)) != 0 && errno == EINTR) {
    }
    if (rc != 0)
        rc = sl_fail_errno(SL_ESYS, errno, "key directory '%s': waiting for its lock", directory);
    else
        rc = make_keys(&m);
    forget(m.old_text, m.old_bytes);
    close(m.dir_fd);
    explicit_bzero(&m, sizeof m);
    return rc;
}
