/*
 * daemon_probe.h - whether the daemon of --connect can be had, and if not, why.
 */
#ifndef SL_CLI_DAEMON_PROBE_H
#define SL_CLI_DAEMON_PROBE_H

#include "common/bus/curve_keys.h"

/*
 * Tries the daemon at `connect` for 2.5 s at most, with the keys of the file `key`. SL_EINVAL: no
 * tcp://HOST:PORT; SL_ENOENT: no such name, or nobody there; SL_EACCESS: not with this key;
 * SL_ETIMEDOUT: it takes connections and says nothing; SL_EABORTED. Each has its own message.
 */
int sl_daemon_probe_daemon(const char *connect, const char *key, const struct sl_curve *keys);

// Whether it is tcp://HOST:PORT; SL_EINVAL.
int sl_daemon_probe_check_endpoint(const char *connect);

#endif
