// doctor_checks.c - the list of checks, and what several of them ask.
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/arena/shared_array.h"
#include "common/base/bits.h"
#include "common/base/error.h"

struct sl_doctor_check *sl_doctor_add(struct sl_doctor *d, const char *key, const char *name,
                                      const char *fmt, ...)
{
    struct sl_doctor_check *c = &d->checks[SL_MIN(d->n, (size_t)SL_DOCTOR_CHECKS_MAX - 1)];
    d->n = SL_MIN(d->n + 1, (size_t)SL_DOCTOR_CHECKS_MAX);
    *c = (struct sl_doctor_check){.key = key, .name = name};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->found, sizeof c->found, fmt, ap);
    va_end(ap);
    return c;
}

void sl_doctor_advise(struct sl_doctor_check *c, enum sl_verdict verdict, const char *fmt, ...)
{
    va_list ap;
    c->verdict = verdict;
    va_start(ap, fmt);
    vsnprintf(c->advice, sizeof c->advice, fmt, ap);
    va_end(ap);
}

static int touch(void *ctx, void *data)
{
    memset(data, 1, *(const size_t *)ctx);
    return SL_OK;
}

bool sl_doctor_shares_huge_pages(void)
{
    size_t bytes = (size_t)4 << 20;
    struct sl_shared_array a;
    const struct sl_shared_array_spec spec = {
        .fd = -1, .bytes = bytes, .make = touch, .ctx = &bytes};
    bool huge = sl_shared_array_open(&spec, &a) == SL_OK && a.huge;
    sl_shared_array_close(&a);
    return huge;
}
