/*
 * log.h - lines for people on standard error.
 *
 * A line is written with one write(2), so lines of several processes never mix. The level comes
 * from SLUICE_LOG (error, warn, info, debug; default info).
 */
#ifndef SL_COMMON_BASE_LOG_H
#define SL_COMMON_BASE_LOG_H

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

// Names this process in every line ("broker", "sampler 0"); copies `who`. Reads SLUICE_LOG.
void sl_log_init(const char *who);

void sl_log_set_level(enum sl_log_level level);
enum sl_log_level sl_log_get_level(void);

void sl_log_write(enum sl_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define sl_log_error(...) sl_log_write(SL_LOG_ERROR, __VA_ARGS__)
#define sl_log_warn(...)  sl_log_write(SL_LOG_WARN, __VA_ARGS__)
#define sl_log_info(...)  sl_log_write(SL_LOG_INFO, __VA_ARGS__)
#define sl_log_debug(...) sl_log_write(SL_LOG_DEBUG, __VA_ARGS__)

#endif
