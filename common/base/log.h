/*
 * log.h - lines for people on standard error.
 *
 * A line is written with one write(2), so lines of several processes never mix. The level comes
 * from SLUICE_LOG (error, warn, info, debug; default info).
 *
 *     12:34:56.789 W broker: text        to a terminal, a file or a pipe
 *     <4>broker: text                    to systemd's journal, which adds the time and takes the
 *                                        number for the line's priority
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

// Names this process in every line ("broker", "sampler 0"); copies `who`. Reads SLUICE_LOG.
void sl_log_init(const char *who);

void sl_log_set_level(enum sl_log_level level);
extern const char *const sl_log_levels[]; // "error", "warn", "info", "debug", NULL
// False for other names, *out then stays.
bool sl_log_find_level(const char *name, enum sl_log_level *out);
enum sl_log_level sl_log_get_level(void);

void sl_log_write(enum sl_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Sends lines to `sink` from now on, whatever their level, in place of standard error: a plug-in
 * (common/device/plugin.h) hands its lines to the program, which knows the level that is wanted and
 * its own name. NULL: back to standard error.
 */
void sl_log_set_sink(void (*sink)(int level, const char *text));

#define sl_log_error(...) sl_log_write(SL_LOG_ERROR, __VA_ARGS__)
#define sl_log_warn(...)  sl_log_write(SL_LOG_WARN, __VA_ARGS__)
#define sl_log_info(...)  sl_log_write(SL_LOG_INFO, __VA_ARGS__)
#define sl_log_debug(...) sl_log_write(SL_LOG_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
