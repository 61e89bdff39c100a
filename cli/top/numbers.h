/*
 * numbers.h - numbers as they stand in a view: short, of a width that hardly changes, with units.
 *
 * What is not known (NaN) is "-". Each writes into buf (SL_NUMBER_BYTES) and returns it.
 */
#ifndef SL_CLI_TOP_NUMBERS_H
#define SL_CLI_TOP_NUMBERS_H

enum { SL_NUMBER_BYTES = 32 };

char *sl_number_bytes(char *buf, double bytes);     // "12 B", "1.5 KiB", "512 MiB"
char *sl_number_count(char *buf, double count);     // "0.8", "17", "1.5 k", "23 M"
char *sl_number_whole(char *buf, double count);     // "17", "1234567"
char *sl_number_seconds(char *buf, double seconds); // "120 us", "3.1 ms", "61 ms", "1.2 s"
char *sl_number_clock(char *buf, double seconds);   // "0:07", "12:31", "1:02:03"
char *sl_number_percent(char *buf, double share);   // of a share: "0 %", "62 %", "<1 %"

#endif
