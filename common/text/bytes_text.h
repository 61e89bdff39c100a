// bytes_text.h - sizes in messages: exact, and as people read them.
#ifndef SL_COMMON_TEXT_BYTES_TEXT_H
#define SL_COMMON_TEXT_BYTES_TEXT_H

#include <stdint.h>

enum { SL_BYTES_TEXT = 64 };

// "67108864 bytes (64.0 MiB)". Returns buf.
char *sl_bytes_text(char buf[SL_BYTES_TEXT], uint64_t bytes);

#endif
