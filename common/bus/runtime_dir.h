/*
 * runtime_dir.h - where a daemon and its clients meet in the file system.
 *
 *   <runtime directory>/  0700, of one user
 *     control.sock   ROUTER: control messages (bus.h)
 *     stats.sock     PUB: statistics (publish.h)
 *     daemon.lock    locked while the daemon lives (F_OFD_SETLK); its text is "pid protocol
 *                    version"
 *     jobs/          what the daemon knows of its jobs, one file each (unless --state-dir)
 *
 * The lock tells a living daemon from files that a dead one left.
 */
#ifndef SL_BUS_RUNTIME_DIR_H
#define SL_BUS_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Of a Unix socket's name, without the terminating zero.
enum { SL_RUNTIME_SOCKET_MAX = 107, SL_RUNTIME_DIR_BYTES = 4096 };

/*
 * Which directory to use: `given` (an option), else $SLUICE_RUNTIME_DIR, else the one of
 * $XDG_RUNTIME_DIR/sluice (where that is a directory of this user), /tmp/sluice-<uid> and
 * /run/user/<uid>/sluice in which a daemon lives, else the first of them. Absolute. SL_ERANGE when
 * a socket in it would have too long a name.
 */
int sl_runtime_dir_find(const char *given, char out[SL_RUNTIME_DIR_BYTES]);

// The first of these directories in which a daemon lives, else 0.
uint32_t sl_runtime_dir_choose(const char *const *dirs, uint32_t n);

// "ipc://<dir>/<socket>"; socket: "control.sock" or "stats.sock".
void sl_runtime_dir_endpoint(const char *dir, const char *socket, char *out, size_t bytes);

struct sl_runtime_holder {
    bool alive; // a daemon holds the lock
    pid_t pid;  // of it, or of the one that held it last; 0 = not known
    unsigned protocol;
    char version[32];
};

// Client: who holds the directory. SL_ENOENT when there is no such directory or lock; SL_EACCESS
// when it is another user's or others may enter it.
int sl_runtime_dir_look(const char *dir, struct sl_runtime_holder *out);

// Daemon: makes the directory (0700) and takes the lock; removes sockets that a dead daemon left.
// Returns the lock's descriptor, to be kept open. SL_EEXIST: another daemon lives there (its pid is
// in the message). SL_EACCESS: not ours, or others may enter it.
int sl_runtime_dir_take(const char *dir, const char *version);

#endif
