#include "broker/daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

// Microseconds of $WATCHDOG_USEC when it is meant for this process; 0 when not.
static uint64_t watchdog_us(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    if (pid && strtoll(pid, NULL, 10) != getpid())
        return 0;
    uint64_t us = usec ? strtoull(usec, &end, 10) : 0;
    return usec && *usec && !*end ? us : 0;
}

void sl_notify_init(struct sl_notify *n)
{
    memset(n, 0, sizeof *n);
    n->fd = -1;
    n->to.sun_family = AF_UNIX;
    const char *name = getenv("NOTIFY_SOCKET");
    size_t bytes = name ? strlen(name) : 0;
    if (bytes > 1 && bytes < sizeof n->to.sun_path && (*name == '@' || *name == '/')) {
        memcpy(n->to.sun_path, name, bytes);
        if (*name == '@')
            n->to.sun_path[0] = '\0';
        n->to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        n->watchdog_ns = watchdog_us() / 2 * 1000;
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void sl_notify_fini(struct sl_notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void sl_notify_send(struct sl_notify *n, const char *text)
{
    if (n->fd < 0)
        return;
    // A manager that does not listen is none of our business.
    ssize_t ignored = sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
                             (const struct sockaddr *)&n->to, n->to_bytes);
    (void)ignored;
}

void sl_notify_poll(struct sl_notify *n)
{
    uint64_t now = sl_now_ns();
    if (n->fd < 0 || n->watchdog_ns == 0 || now - n->alive_ns < n->watchdog_ns)
        return;
    n->alive_ns = now;
    sl_notify_send(n, "WATCHDOG=1");
}
