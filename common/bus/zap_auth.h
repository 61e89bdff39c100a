/*
 * zap_auth.h - which clients may connect over TCP: the ZAP handler of one ZeroMQ context (ZeroMQ's
 * RFC 27).
 *
 * libzmq asks the handler about every client that has proved, by CURVE, that it has the secret of
 * its public key; the handler accepts it when the key is in the daemon's list. It is a thread that
 * ends with the context.
 */
#ifndef SL_BUS_ZAP_AUTH_H
#define SL_BUS_ZAP_AUTH_H

struct sl_curve;
struct sl_zap_auth;

// Before the first socket is armed. keys: a daemon's (SL_EINVAL otherwise); copied.
int sl_zap_auth_open(void *zmq_context, const struct sl_curve *keys, struct sl_zap_auth **out);

// Once the context has been terminated. NULL is fine.
void sl_zap_auth_close(struct sl_zap_auth *gate);

// Make a socket a CURVE server that asks the handler, or a CURVE client; before it binds or
// connects.
int sl_zap_auth_arm_server(void *zmq_socket, const struct sl_curve *keys);
int sl_zap_auth_arm_client(void *zmq_socket, const struct sl_curve *keys);

// Bounds the silence of a peer on TCP, where it may vanish unnoticed. A silent peer on this machine
// is only stopped.
int sl_zap_auth_bound_silence(void *zmq_socket);

#endif
