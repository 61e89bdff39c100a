/*
 * doctor.h - the checks of `sluice doctor`: each adds a line, and advice where something is wrong.
 *
 *   doctor.c          the command, the machine, limits, the kernel's parts, files
 *   doctor_checks.c   the list that they fill
 *   doctor_gpus.c     GPUs and what they need
 *   doctor_service.c  what is around it: daemon, libraries, container, terminal, systemd
 *   doctor_nodes.c    --nodes: several machines at once
 */
#ifndef SL_CLI_DOCTOR_H
#define SL_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

// Only a problem stops jobs.
enum sl_verdict { SL_VERDICT_OK, SL_VERDICT_WARNING, SL_VERDICT_PROBLEM };

enum { SL_DOCTOR_CHECKS_MAX = 80, SL_DOCTOR_TEXT_BYTES = 1024 };

struct sl_doctor_check {
    const char *key; // in JSON
    const char *name;
    enum sl_verdict verdict;
    char found[SL_DOCTOR_TEXT_BYTES];
    char advice[SL_DOCTOR_TEXT_BYTES]; // empty when ok
};

struct sl_doctor {
    struct sl_doctor_check checks[SL_DOCTOR_CHECKS_MAX];
    size_t n;
};

// A line that says what there is. Never NULL.
struct sl_doctor_check *sl_doctor_add(struct sl_doctor *d, const char *key, const char *name,
                                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));
// What is wrong with it and what to do.
void sl_doctor_advise(struct sl_doctor_check *c, enum sl_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Whether the kernel moves memory that processes share to huge pages.
bool sl_doctor_shares_huge_pages(void);

// doctor_gpus.c: all of it
void sl_doctor_check_gpus(struct sl_doctor *d);

// doctor_service.c: all of it; `where` the daemon is looked for
struct sl_session_where;
void sl_doctor_check_service(struct sl_doctor *d, const struct sl_session_where *where);

// doctor_nodes.c: all of it, as a command does it (command.h). job: NULL for none; output: enum
// sl_output.
int sl_doctor_nodes(const char *job, int output);

#endif
