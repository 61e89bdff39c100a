/*
 * peer.c - asks the kernel (sock_diag) for the socket at the other end: one look-up, however many
 * sockets the machine has. On loopback both ends are sockets of this machine.
 *
 * A socket that its process has closed still has an entry for a while, and says user 0 there: it
 * has no inode, and counts as nobody's. The answer to a netlink question is queued before sending
 * it returns, so nothing here waits.
 */
#include "broker/http/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// Port and address as the kernel's question has them; the family.
static int take_end(const union address *a, __be16 *port, __be32 to[4])
{
    if (a->any.sa_family == AF_INET) {
        *port = a->v4.sin_port;
        to[0] = a->v4.sin_addr.s_addr;
    } else if (a->any.sa_family == AF_INET6) {
        *port = a->v6.sin6_port;
        memcpy(to, &a->v6.sin6_addr, sizeof a->v6.sin6_addr);
    }
    return a->any.sa_family;
}

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 ask;
};

struct answer {
    struct nlmsghdr head;
    struct inet_diag_msg found;
};

static bool ask_kernel(const struct question *q, struct answer *a)
{
    char bytes[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    ssize_t n = send(fd, q, sizeof *q, 0) == (ssize_t)sizeof *q
                    ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)
                    : -1;
    close(fd);
    if (n < (ssize_t)sizeof *a)
        return false;
    memcpy(a, bytes, sizeof *a);
    return a->head.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

bool sl_peer_user(int fd, uid_t *user)
{
    union address here = {0}, there = {0};
    socklen_t n_here = sizeof here, n_there = sizeof there;
    struct question q = {
        .head = {.nlmsg_len = sizeof q,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .ask = {.sdiag_protocol = IPPROTO_TCP,
                .idiag_states = ~0u,
                .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
    };
    struct answer a;
    if (getsockname(fd, &here.any, &n_here) != 0 || getpeername(fd, &there.any, &n_there) != 0)
        return false;
    // The other end's socket: its own address is our peer's.
    int family = take_end(&there, &q.ask.id.idiag_sport, q.ask.id.idiag_src);
    if (family != take_end(&here, &q.ask.id.idiag_dport, q.ask.id.idiag_dst) ||
        (family != AF_INET && family != AF_INET6))
        return false;
    q.ask.sdiag_family = (__u8)family;
    if (!ask_kernel(&q, &a))
        return false;
    // Where no connection fits, a listener may: that is another socket.
    if (a.found.idiag_state == TCP_LISTEN || a.found.idiag_inode == 0 ||
        a.found.id.idiag_sport != q.ask.id.idiag_sport ||
        a.found.id.idiag_dport != q.ask.id.idiag_dport)
        return false;
    *user = a.found.idiag_uid;
    return true;
}
