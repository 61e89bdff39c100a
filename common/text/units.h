/*
 * units.h - numbers as people write and read them.
 */
#ifndef SL_TEXT_UNITS_H
#define SL_TEXT_UNITS_H

#include <stdint.h>

enum { SL_UNITS_BYTES = 64 }; // what every formatter below needs

/*
 * "4GiB", "512 MiB", "64k", "2e6", "1.5GB": k, M, G, T are powers of 1000, Ki, Mi, Gi, Ti powers
 * of 1024, an optional B after them. Parts of a byte are left out ("1.1GiB"). 0, or -1 when the
 * text is something else or over 2^63.
 */
int sl_units_parse_bytes(const char *text, uint64_t *bytes);

// "17", "1e6", "2.5e3", "1_000_000", and 100k / 1.5M / 2G (powers of 1000). 0, or -1.
int sl_units_parse_count(const char *text, uint64_t *count);

// Each writes into buf (SL_UNITS_BYTES) and returns it.
char *sl_units_bytes(char *buf, uint64_t bytes);       // "1.50 GiB", "12 B"
char *sl_units_size(char *buf, uint64_t bytes);        // as it is read: "512MiB", "1000"
char *sl_units_exact_bytes(char *buf, uint64_t bytes); // "67108864 bytes (64.0 MiB)"
char *sl_units_count(char *buf, double count);         // "1.50 M", "999"
char *sl_units_grouped(char *buf, uint64_t number);    // "1,234,567"
char *sl_units_seconds(char *buf, double seconds);     // "1.2 s", "3 min 05 s", "120 us"

#endif
