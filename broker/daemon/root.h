// root.h - the directory below which jobs of clients over TCP may write.
#ifndef SL_BROKER_DAEMON_ROOT_H
#define SL_BROKER_DAEMON_ROOT_H

#include <stddef.h>

/*
 * What `given` means as a root: an absolute path without links. NULL: the directory that this
 * process was started in, which must not be "/": that would be no bound, and nobody has asked for
 * it. SL_EINVAL, SL_EACCESS, SL_ERANGE.
 */
int sl_root_find(const char *given, char *out, size_t bytes);

/*
 * Whether `path` (absolute), or what is to be made there, lies below the root: with links followed
 * as far as it is there, and without ".." in what is not. `what` names it in the message.
 * SL_EINVAL: outside. SL_EACCESS: it cannot be looked at.
 *
 * Links that are made afterwards are not seen: nothing that a client can ask for makes any.
 */
int sl_root_check(const char *root, const char *what, const char *path);

#endif
