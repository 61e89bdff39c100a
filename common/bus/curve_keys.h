/*
 * curve_keys.h - keys for the control and statistics sockets over TCP (CURVE: curve25519, encrypted
 * and authenticated both ways).
 *
 * Key files are text: lines "public = ..." and "secret = ..." in Z85 (40 characters). `sluice
 * keygen` writes two of them, both 0600:
 *
 *   daemon.key      the daemon's pair and, for each client that may connect, "client = <public>"
 *   client.key      a client's pair, and "daemon = <public>": the daemon that it will talk to
 *
 * A file that others may read is refused.
 */
#ifndef SL_BUS_CURVE_KEYS_H
#define SL_BUS_CURVE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_CURVE_KEY_TEXT = 41, SL_CURVE_CLIENTS_MAX = 256 };

struct sl_curve {
    char public_key[SL_CURVE_KEY_TEXT], secret_key[SL_CURVE_KEY_TEXT];
    char daemon_key[SL_CURVE_KEY_TEXT]; // of a client's file; "" in a daemon's
    uint32_t n_clients;                 // of a daemon's file
    char client[SL_CURVE_CLIENTS_MAX][SL_CURVE_KEY_TEXT];
};

// Whether a text is a key: 40 characters of Z85.
bool sl_curve_is_key(const char *text);

// SL_ENOENT, SL_EACCESS (others may read it), SL_EFORMAT; the message names file and line.
int sl_curve_read(const char *path, struct sl_curve *out);

// Writes daemon.key and client.key into `directory` (made, 0700, if it is not there). Where
// daemon.key exists it only makes one more client and adds it there. SL_EEXIST when the client's
// file is there.
int sl_curve_generate(const char *directory, const char *client_name);

#endif
