/*
 * notify.h - telling the service manager: the protocol of sd_notify(3), by hand.
 *
 * A datagram of lines VARIABLE=VALUE to the socket that $NOTIFY_SOCKET names ('@' begins an
 * abstract name). Without one, everything here does nothing. No call waits.
 */
#ifndef SL_BROKER_DAEMON_NOTIFY_H
#define SL_BROKER_DAEMON_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sl_notify {
    int fd; // -1: nobody wants to know
    struct sockaddr_un to;
    socklen_t to_bytes;
    uint64_t watchdog_ns; // how often a sign of life is due; 0 = never
    uint64_t alive_ns;    // of the last one
};

// Reads the environment, and takes the variables out of it: they are not for children.
void sl_notify_init(struct sl_notify *n);
void sl_notify_fini(struct sl_notify *n);

// "READY=1", "STOPPING=1", "STATUS=..." and so on; several are separated by newlines.
void sl_notify_send(struct sl_notify *n, const char *text);

// From time to time: WATCHDOG=1 at half of the time that the manager grants.
void sl_notify_poll(struct sl_notify *n);

#endif
