/*
 * bus_key.h - the secret by which both sides of a job's bus recognise one another.
 *
 * It is the secret half of one CURVE pair that broker, workers and clients of a job share, and goes
 * from process to process as an inherited file without a name. It is never a word of a command
 * line, which every user of the machine may read; the kernel shows a process's descriptors to its
 * own user alone.
 */
#ifndef SL_BUS_BUS_KEY_H
#define SL_BUS_BUS_KEY_H

#include <stdbool.h>

#include "common/bus/curve_keys.h"

enum { SL_BUS_KEY_TEXT = SL_CURVE_KEY_TEXT }; // with the terminating zero

// A fresh one. SL_EUNSUPPORTED: this ZeroMQ has no CURVE.
int sl_bus_key_make(char key[SL_BUS_KEY_TEXT]);

// A memfd with the key, close-on-exec; the descriptor, or SL_ESYS.
int sl_bus_key_hand_over(const char *key);

// The key in such a descriptor, wherever its position is. SL_ESYS, SL_EFORMAT.
int sl_bus_key_read(int fd, char key[SL_BUS_KEY_TEXT]);

// The keys of the side that binds, or of one that connects.
int sl_bus_key_curve(const char *key, bool binds, struct sl_curve *out);

#endif
