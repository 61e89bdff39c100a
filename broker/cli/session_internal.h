// session_internal.h - between session.c, session_list.c and session_reach.c.
#ifndef SL_BROKER_CLI_SESSION_INTERNAL_H
#define SL_BROKER_CLI_SESSION_INTERNAL_H

#include <cjson/cJSON.h>

#include "broker/cli/find_job.h"
#include "broker/cli/session.h"
#include "common/ipc/curve.h"

// Connects to the daemon and asks for its list (owned: cJSON_Delete).
int sl_session_open_listing(const struct sl_session_where *where, struct sl_session *s,
                            cJSON **list);

/*
 * session_reach.c: tries the daemon of --connect, for 2.5 s at most. SL_EINVAL: no tcp://HOST:PORT;
 * SL_ENOENT: no such name, or nobody there; SL_EACCESS: not with this key; SL_ETIMEDOUT: it takes
 * connections and says nothing; SL_EABORTED. Each has its own message.
 */
int sl_session_reach(const struct sl_session_where *where, const struct sl_curve *keys);

// Whether it is tcp://HOST:PORT; SL_EINVAL.
int sl_session_check_endpoint(const char *connect);

// To the broker of one `sluice run`.
int sl_session_open_found(const struct sl_found_job *job, struct sl_session *s);

#endif
