#include "common/bus/attach_protocol.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 // Linux 6.5
#endif

#define MAGIC UINT32_C(0x61746c73) // "slta"

enum { BACKLOG = 64, N_FDS = sizeof(struct sl_worker_fds) / sizeof(int) };

struct head {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
};

struct question {
    struct head head;
    int32_t rank;
};

enum answer_kind { ANSWER_SEAT = 1, ANSWER_REFUSED, ANSWER_END };

struct answer {
    struct head head;
    int32_t code; // REFUSED
    uint32_t worker, slot, role_index, device;
    char endpoint[128];
    char text[SL_ATTACH_TEXT];
};

static struct head head_of(unsigned kind)
{
    return (struct head){MAGIC, SL_ATTACH_VERSION, (uint16_t)kind};
}

char *sl_attach_path(const char *endpoint, char buf[SL_ATTACH_PATH_BYTES])
{
    const char *name = strchr(endpoint, '@');
    snprintf(buf, SL_ATTACH_PATH_BYTES, "%s-attach", name ? name : "@");
    return buf;
}

// The address of "@name". Returns its bytes.
static socklen_t address(const char *path, struct sockaddr_un *out)
{
    const size_t n = SL_MIN(strlen(path), sizeof out->sun_path);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, path, n);
    out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static int peer_of(int fd, struct ucred *out)
{
    socklen_t n = sizeof *out;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &n) != 0)
        return sl_fail_errno(SL_ESYS, errno, "attaching: asking who is there");
    return SL_OK;
}

// --- the trainer ---------------------------------------------------------------------------------

int sl_attach_connect(const char *path, uint32_t timeout_ms)
{
    struct sockaddr_un to;
    struct ucred other;
    const struct timeval patience = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "attaching: socket");
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); // of connect, too
    int rc = SL_OK;
    if (path[0] != '@')
        rc = sl_fail(SL_EINVAL, "attaching: found '%s', wanted an abstract name, '@...'", path);
    else if (connect(fd, (struct sockaddr *)&to, address(path, &to)) != 0)
        rc = errno == ECONNREFUSED
                 ? sl_fail(SL_ENOENT, "attaching: no job waits for trainers at '%s'", path)
                 : sl_fail_errno(SL_ESYS, errno, "attaching to '%s'", path);
    if (rc == SL_OK)
        rc = peer_of(fd, &other);
    if (rc == SL_OK && other.uid != geteuid())
        rc = sl_fail(SL_EACCESS,
                     "attaching to '%s': it is a process of user %u, wanted one of user %u", path,
                     (unsigned)other.uid, (unsigned)geteuid());
    if (rc == SL_OK)
        return fd;
    close(fd);
    return rc;
}

void sl_attach_close_fds(struct sl_worker_fds *fds)
{
    int *fd = (int *)fds;
    for (int i = 0; i < N_FDS; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}

// One answer, with the descriptors that came with it. As recv(2).
static ssize_t receive_answer(int fd, struct answer *m, struct sl_worker_fds *fds, int *n_fds)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof *fds)];
    } control;
    struct iovec into = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &into,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    *n_fds = 0;
    const ssize_t got = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&h);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return got;
    *n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(c), (size_t)SL_MIN(*n_fds, (int)N_FDS) * sizeof(int));
    return got;
}

static int fail_lost(void)
{
    return sl_fail(SL_EABORTED, "attaching: the job's broker has ended: its log says why");
}

// The broker's answer to a request, and what came with it.
static int wait_for_answer(int fd, uint32_t timeout_ms, struct answer *m, struct sl_worker_fds *fds)
{
    const uint64_t until = sl_now_ns() + timeout_ms * UINT64_C(1000000);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int n_fds;
    for (uint64_t now; (now = sl_now_ns()) < until;) {
        if (poll(&wait, 1, (int)((until - now) / 1000000) + 1) <= 0)
            continue;
        const ssize_t got = receive_answer(fd, m, fds, &n_fds);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return fail_lost();
        if (got < (ssize_t)sizeof m->head || m->head.magic != MAGIC)
            return sl_fail(SL_EPROTO, "attaching: what listens there is no broker of sluice");
        if (m->head.version != SL_ATTACH_VERSION)
            return sl_fail(SL_EPROTO,
                           "attaching: this program has protocol %d, the job's broker %u: start "
                           "the job with the same version of sluice",
                           SL_ATTACH_VERSION, m->head.version);
        m->text[sizeof m->text - 1] = m->endpoint[sizeof m->endpoint - 1] = '\0';
        if (m->head.kind == ANSWER_SEAT && n_fds == N_FDS && got == (ssize_t)sizeof *m)
            return SL_OK;
        if (m->head.kind == ANSWER_SEAT)
            return sl_fail(SL_EPROTO, "attaching: found %d descriptors, wanted %d", n_fds, N_FDS);
        return sl_fail(m->head.kind == ANSWER_REFUSED && m->code < 0 ? m->code : SL_EABORTED, "%s",
                       m->text);
    }
    return sl_fail(SL_ETIMEDOUT, "attaching: no answer within %.3g s: the job's broker is busy",
                   timeout_ms * 1e-3);
}

int sl_attach_ask(int fd, int32_t rank, uint32_t timeout_ms, struct sl_attach_seat *out)
{
    struct answer m = {0};
    const struct question q = {.head = head_of(SL_ATTACH_REQUEST), .rank = rank};
    memset(&out->fd, 0xff, sizeof out->fd); // -1
    if (send(fd, &q, sizeof q, MSG_NOSIGNAL) != (ssize_t)sizeof q)
        return fail_lost();
    SL_TRY(wait_for_answer(fd, timeout_ms, &m, &out->fd));
    out->worker = m.worker;
    out->slot = m.slot;
    out->role_index = m.role_index;
    out->device = m.device;
    snprintf(out->endpoint, sizeof out->endpoint, "%s", m.endpoint);
    return SL_OK;
}

int sl_attach_read_end(int fd, char *text)
{
    struct answer m = {0};
    struct sl_worker_fds none;
    int n_fds;
    const ssize_t got = receive_answer(fd, &m, &none, &n_fds);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SL_EAGAIN;
    if (got < (ssize_t)sizeof m || m.head.magic != MAGIC || m.head.kind != ANSWER_END)
        return SL_EPROTO;
    snprintf(text, SL_ATTACH_TEXT, "%.*s", (int)sizeof m.text - 1, m.text);
    return SL_OK;
}

void sl_attach_say_leave(int fd)
{
    const struct question q = {.head = head_of(SL_ATTACH_LEAVE)};
    send(fd, &q, sizeof q, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// --- the broker ----------------------------------------------------------------------------------

int sl_attach_listen(const char *path)
{
    struct sockaddr_un at;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "waiting for external trainers: socket");
    if (bind(fd, (struct sockaddr *)&at, address(path, &at)) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int err = errno;
    close(fd);
    return sl_fail_errno(SL_ESYS, err, "waiting for external trainers at '%s'", path);
}

static void send_answer(int fd, struct answer *m, unsigned kind, const char *text)
{
    m->head = head_of(kind);
    snprintf(m->text, sizeof m->text, "%s", text);
    send(fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The process behind a connection, for certain: either the kernel tells, or it lives after its
// number has been turned into a descriptor.
static int open_process(int fd, pid_t pid)
{
    int pidfd = -1;
    socklen_t n = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0)
        return pidfd;
    struct pollfd hung = {.fd = fd};
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && poll(&hung, 1, 0) == 0)
        return pidfd;
    if (pidfd >= 0)
        close(pidfd);
    return -1;
}

int sl_attach_accept(int listener, struct sl_attach_peer *out)
{
    struct ucred who;
    *out = (struct sl_attach_peer){.fd = -1, .pidfd = -1};
    out->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (out->fd < 0)
        return SL_EAGAIN;
    int rc = peer_of(out->fd, &who);
    if (rc == SL_OK && who.uid != geteuid()) {
        rc = sl_fail(SL_EACCESS,
                     "attaching: process %d is of user %u, wanted a process of user %u, who runs "
                     "the job",
                     (int)who.pid, (unsigned)who.uid, (unsigned)geteuid());
    } else if (rc == SL_OK) {
        out->pid = who.pid;
        out->pidfd = open_process(out->fd, who.pid);
        if (out->pidfd < 0)
            rc = sl_fail(SL_EUNSUPPORTED,
                         "attaching: the death of process %d could not be told from here: it is "
                         "gone, in another process namespace, or the kernel is older than 5.3",
                         (int)who.pid);
    }
    if (rc < 0) {
        sl_attach_refuse(out, rc, sl_error_message());
        sl_attach_close(out);
    }
    return rc;
}

int sl_attach_receive(const struct sl_attach_peer *peer, int32_t *rank)
{
    struct question q = {0};
    char text[160];
    const ssize_t got = recv(peer->fd, &q, sizeof q, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SL_EAGAIN;
    if (got < (ssize_t)sizeof q.head || q.head.magic != MAGIC)
        return SL_EPROTO;
    if (q.head.version != SL_ATTACH_VERSION || got != (ssize_t)sizeof q) {
        snprintf(text, sizeof text,
                 "attaching: this program has protocol %u, the job's broker %d: start the job with "
                 "the same version of sluice",
                 q.head.version, SL_ATTACH_VERSION);
        sl_attach_refuse(peer, SL_EPROTO, text);
        return SL_EPROTO;
    }
    *rank = q.rank;
    return q.head.kind == SL_ATTACH_REQUEST || q.head.kind == SL_ATTACH_LEAVE ? q.head.kind
                                                                              : SL_EPROTO;
}

int sl_attach_grant(const struct sl_attach_peer *peer, const struct sl_attach_seat *seat)
{
    struct answer m = {
        .head = head_of(ANSWER_SEAT),
        .worker = seat->worker,
        .slot = seat->slot,
        .role_index = seat->role_index,
        .device = seat->device,
    };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof seat->fd)];
    } control = {0};
    snprintf(m.endpoint, sizeof m.endpoint, "%s", seat->endpoint);
    struct iovec from = {&m, sizeof m};
    const struct msghdr h = {.msg_iov = &from,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof seat->fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &seat->fd, sizeof seat->fd);
    if (sendmsg(peer->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof m)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "attaching: answering process %d", (int)peer->pid);
}

void sl_attach_refuse(const struct sl_attach_peer *peer, int code, const char *text)
{
    struct answer m = {.code = code};
    send_answer(peer->fd, &m, ANSWER_REFUSED, text);
}

void sl_attach_end(const struct sl_attach_peer *peer, const char *text)
{
    struct answer m = {0};
    send_answer(peer->fd, &m, ANSWER_END, text);
}

void sl_attach_close(struct sl_attach_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    peer->fd = peer->pidfd = -1;
}
