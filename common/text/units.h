/*
 * units.h - numbers as people write and read them.
 */
#ifndef SL_TEXT_UNITS_H
#define SL_TEXT_UNITS_H

#include <stdbool.h>
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

// Each writes into buf (SL_UNITS_BYTES) and returns it; what is not known (not finite) is "-".
char *sl_units_bytes(char *buf, double bytes);         // "1.50 GiB", "12 B"
char *sl_units_size(char *buf, uint64_t bytes);        // as it is read: "512MiB", "1000"
char *sl_units_exact_bytes(char *buf, uint64_t bytes); // "67108864 bytes (64.0 MiB)"
char *sl_units_count(char *buf, double count);         // "1.50 M", "999"
char *sl_units_whole(char *buf, double count);         // "17", "1234567"
char *sl_units_grouped(char *buf, uint64_t number);    // "1,234,567"
char *sl_units_seconds(char *buf, double seconds);     // "1.2 s", "3 min 05 s", "120 us"
char *sl_units_clock(char *buf, double seconds);       // "0:07", "12:31", "1:02:03"
char *sl_units_percent(char *buf, double share);       // of a share: "0 %", "62 %", "<1 %"

// As they stand in a view: short, of a width that hardly changes.
char *sl_units_brief_bytes(char *buf, double bytes);     // "12 B", "1.5 KiB", "512 MiB"
char *sl_units_brief_count(char *buf, double count);     // "0.8", "17", "1.5 k", "23 M"
char *sl_units_brief_seconds(char *buf, double seconds); // "120 us", "3.1 ms", "61 ms", "1.2 s"
// "25 min", "12 s": one unit is enough where there is no room. past: only whole ones count.
char *sl_units_rough_seconds(char *buf, double seconds, bool past);

// "1 sampler", "3 batches": a number and what there is of it.
char *sl_units_plural(char *buf, double n, const char *one);
#define SL_PLURAL(n, one) sl_units_plural((char[SL_UNITS_BYTES]){0}, (n), (one))

#endif
