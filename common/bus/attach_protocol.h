/*
 * attach_protocol.h - how an external trainer takes a seat of a job that runs: what is said, by
 * both sides. (attach.h does it.)
 *
 * PROBLEM. The trainer of a job with model.kind "external" is a process of the user's. It inherits
 * nothing, may come late, leave and be followed by another one, and is not the broker's child: so
 * somebody has to bring it what workers inherit, and to know for certain when it is dead.
 *
 * DESIGN. The broker listens on a Unix socket whose name follows from the bus's (sl_attach_path).
 * The name is abstract: no file is left behind by whatever dies, and it is found where the bus is
 * found. Anybody may connect to such a name, or take it when the broker is dead, so each side looks
 * at the other's credentials, which the kernel tells (SO_PEERCRED), before it sends anything: both
 * are of one user, or nothing happens.
 *
 *     trainer -> broker   REQUEST   which rank it wants
 *     broker -> trainer   SEAT      numbers, the bus's endpoint, and as SCM_RIGHTS what workers
 *                                   inherit (struct sl_worker_fds)
 *                     or  REFUSED   a code and a sentence
 *     ...                           Hello, Attach, Ready over the bus: a worker like any other
 *     broker -> trainer   END       the job ends, and why
 *     trainer -> broker   LEAVE     it has given everything back and touches nothing any more
 *
 * The connection stays open. Its end tells the trainer that the broker is dead. The reverse is no
 * proof, since a process may close what it likes: a seat is free once its process said LEAVE, or
 * once the kernel has proved its death (pidfd).
 *
 * A message is one datagram (SOCK_SEQPACKET) that begins with magic and version; these two stay.
 */
#ifndef SL_BUS_ATTACH_PROTOCOL_H
#define SL_BUS_ATTACH_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bus/worker_fds.h"

enum {
    SL_ATTACH_VERSION = 1,
    SL_ATTACH_TEXT = 2048,
    SL_ATTACH_PATH_BYTES = 104,
    SL_ATTACH_ANY_RANK = -1,
    SL_ATTACH_ANSWER_MS = 60000,
};

// Where trainers of the job whose bus is there attach: "@" and an abstract name. Returns buf.
char *sl_attach_path(const char *endpoint, char buf[SL_ATTACH_PATH_BYTES]);

// What a trainer gets.
struct sl_attach_seat {
    uint32_t worker, slot, role_index, device;
    char endpoint[128]; // of the bus
    struct sl_worker_fds fd;
};

// --- the trainer ---

// A connection to the broker, which has shown that it is of this user. SL_ENOENT: nobody listens
// there (yet). SL_EACCESS, SL_EINVAL, SL_ESYS.
int sl_attach_connect(const char *path, uint32_t timeout_ms);
// Asks for a seat (rank or SL_ATTACH_ANY_RANK). The descriptors in *out are the caller's to close,
// after an error too: those that did not come are -1. Errors as sl_attach().
int sl_attach_ask(int fd, int32_t rank, uint32_t timeout_ms, struct sl_attach_seat *out);
// What the broker says at the end. SL_OK with its words (SL_ATTACH_TEXT bytes); SL_EAGAIN: nothing
// yet; SL_EPROTO: the connection ended without, and *text stays.
int sl_attach_read_end(int fd, char *text);
void sl_attach_say_leave(int fd);
void sl_attach_close_fds(struct sl_worker_fds *fd); // those that are there; -1 from then on

// --- the broker: no call waits ---

struct sl_attach_peer {
    int fd;
    pid_t pid;
    int pidfd; // readable once the process is dead
};

enum sl_attach_kind { SL_ATTACH_REQUEST = 1, SL_ATTACH_LEAVE };

// The descriptor, which does not block. SL_ESYS.
int sl_attach_listen(const char *path);
// SL_OK: *out is the caller's to close (sl_attach_close). SL_EAGAIN: nobody. SL_EACCESS: a process
// of another user, which has been refused.
int sl_attach_accept(int listener, struct sl_attach_peer *out);
// One message: its kind, and the rank of a REQUEST. SL_EAGAIN: none yet. SL_EPROTO: it is none, or
// of another version (which has been refused), or the connection has ended.
int sl_attach_receive(const struct sl_attach_peer *peer, int32_t *rank);
// SL_ESYS: it does not take it.
int sl_attach_grant(const struct sl_attach_peer *peer, const struct sl_attach_seat *seat);
void sl_attach_refuse(const struct sl_attach_peer *peer, int code, const char *text);
void sl_attach_end(const struct sl_attach_peer *peer, const char *text); // END
void sl_attach_close(struct sl_attach_peer *peer);

#endif
