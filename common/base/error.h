/*
 * error.h - error codes and the message that travels with them.
 *
 * A function that can fail returns SL_OK (0), or a negative SL_E* code after it recorded one
 * message for this thread with sl_fail(). The message says what was being done, on which object,
 * what was found, what was wanted and what to do about it. Libraries never print and never exit:
 * main() prints sl_error_message() once.
 */
#ifndef SL_BASE_ERROR_H
#define SL_BASE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

// X(name, value, text). The values are stable: they cross process borders in control messages.
#define SL_ERROR_MAP(X)                                                                            \
    X(EINVAL, 1, "invalid argument or configuration")                                              \
    X(EFORMAT, 2, "malformed file or message")                                                     \
    X(ENOENT, 3, "not found")                                                                      \
    X(EACCESS, 4, "permission denied")                                                             \
    X(EEXIST, 5, "already exists")                                                                 \
    X(ENOMEM, 6, "out of memory")                                                                  \
    X(EIO, 7, "input or output error")                                                             \
    X(ESYS, 8, "operating system error")                                                           \
    X(ERANGE, 9, "value out of range")                                                             \
    X(ETIMEDOUT, 10, "timed out")                                                                  \
    X(EABORTED, 11, "aborted")                                                                     \
    X(EAGAIN, 12, "not ready yet")                                                                 \
    X(ESTALE, 13, "lease lost")                                                                    \
    X(EUNSUPPORTED, 14, "not supported")                                                           \
    X(EPROTO, 15, "protocol violation")                                                            \
    X(EFAILED, 16, "job failed")                                                                   \
    X(EDEVICE, 17, "device failed")                                                                \
    X(ENOTFINITE, 18, "not a finite number")                                                       \
    X(ECHANGED, 19, "file changed while it was in use")

enum sl_error {
    SL_OK = 0,
#define SL_ERROR_ENUM(name, value, text) SL_##name = -(value),
    SL_ERROR_MAP(SL_ERROR_ENUM)
#undef SL_ERROR_ENUM
};

// Static text of a code; never NULL.
const char *sl_strerror(int code);

// Records a printf-style message for this thread, replacing the one before, and returns `code`.
int sl_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Like sl_fail(), and appends ": " and strerror(err).
int sl_fail_errno(int code, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts "context: " before the recorded message and returns `code`.
int sl_fail_prefix(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The last recorded message of this thread (borrowed, valid until the next sl_fail here).
const char *sl_error_message(void);

/*
 * Tells `sink` every message that is recorded from now on, in any thread, as soon as it is: a
 * plug-in (common/device/plugin.h) has an error.c of its own, and its messages must be this
 * thread's last in the program too. NULL: no more.
 */
void sl_error_set_sink(int (*sink)(int code, const char *message));

// Notes one level of the call chain; shown with SLUICE_LOG=debug.
void sl_error_trace(const char *file, int line, const char *func, int code);

#define SL_TRY(expr)                                                                               \
    do {                                                                                           \
        int sl_rc_ = (expr);                                                                       \
        if (__builtin_expect(sl_rc_ < 0, 0)) {                                                     \
            sl_error_trace(__FILE__, __LINE__, __func__, sl_rc_);                                  \
            return sl_rc_;                                                                         \
        }                                                                                          \
    } while (0)

// For functions with one `out:` label: assigns the variable `rc` and jumps.
#define SL_TRY_OUT(expr)                                                                           \
    do {                                                                                           \
        rc = (expr);                                                                               \
        if (__builtin_expect(rc < 0, 0)) {                                                         \
            sl_error_trace(__FILE__, __LINE__, __func__, rc);                                      \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
