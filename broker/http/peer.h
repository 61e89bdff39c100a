// peer.h - asks the kernel which user owns the other end of a loopback connection.
#ifndef SL_BROKER_HTTP_PEER_H
#define SL_BROKER_HTTP_PEER_H

#include <stdbool.h>

#include <sys/types.h>

// The user whose socket is connected to the accepted socket `fd`. False where the system does not
// say (a kernel without sock_diag), or where nobody has that socket open any more.
bool sl_peer_user(int fd, uid_t *user);

#endif
