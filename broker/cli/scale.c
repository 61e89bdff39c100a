/*
 * scale.c - `sluice scale JOB samplers=N trainers=M`: changes the split of a running job.
 *
 * The command finds the job's broker, asks, and waits until the new split holds. It
 * can be interrupted at any time: the change goes on.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/command.h"
#include "broker/cli/find_job.h"
#include "broker/cli/options.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/bus.h"

enum { ROLE_MAX = 1024, LOOK_MS = 200, LINGER_MS = 1000 };

struct request {
    const char *job, *first, *second;
    uint64_t timeout_s;
    Sl__Control__Scale scale;
};

// "samplers=2"
static int take_assignment(struct request *r, const char *text)
{
    static const char samplers[] = "samplers=", trainers[] = "trainers=";
    const char *value = NULL;
    bool is_samplers = strncmp(text, samplers, sizeof samplers - 1) == 0;
    if (is_samplers)
        value = text + sizeof samplers - 1;
    else if (strncmp(text, trainers, sizeof trainers - 1) == 0)
        value = text + sizeof trainers - 1;
    if (!value)
        return sl_fail(SL_EINVAL, "scale: found '%s', wanted samplers=N or trainers=M", text);
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    if (end == value || *end || *value == '-' || n > ROLE_MAX)
        return sl_fail(SL_EINVAL, "scale: found '%s', wanted a whole number from 1 to %d", text,
                       ROLE_MAX);
    if (n == 0)
        return sl_fail(SL_EINVAL, "scale: found '%s', wanted at least 1: nobody would %s", text,
                       is_samplers ? "draw batches" : "train");
    if (is_samplers ? r->scale.has_samplers : r->scale.has_trainers)
        return sl_fail(SL_EINVAL, "scale: %s is given twice",
                       is_samplers ? "samplers" : "trainers");
    if (is_samplers) {
        r->scale.has_samplers = true;
        r->scale.samplers = (uint32_t)n;
    } else {
        r->scale.has_trainers = true;
        r->scale.trainers = (uint32_t)n;
    }
    return SL_OK;
}

static int parse(int argc, char **argv, struct request *r)
{
    const struct sl_operand operands[] = {{"JOB", &r->job, false},
                                          {"samplers=N", &r->first, false},
                                          {"trainers=M", &r->second, true}};
    const struct sl_option options[] = {
        {.name = "timeout",
         .type = SL_OPTION_UINT,
         .value = &r->timeout_s,
         .placeholder = "SECONDS",
         .min = 1,
         .max = 86400,
         .help = "how long to wait until the new split holds; the change goes on after that"},
    };
    const struct sl_command_usage usage = {
        .command = "scale",
        .about = "Changes how many devices of a running job sample and how many train. JOB is its "
                 "name or its\nrun directory; what is not given stays. Returns once the new split "
                 "holds: batches in hand are\nfinished or given back, and none is lost. Status 1: "
                 "the job could not or did not do it.",
        .example = "sluice scale products-sage samplers=1 trainers=3",
        .operands = operands,
        .n_operands = SL_COUNT_OF(operands),
        .options = options,
        .n_options = SL_COUNT_OF(options),
    };
    int rc = sl_options_parse(&usage, argc, argv);
    if (rc != SL_OK)
        return rc;
    SL_TRY(take_assignment(r, r->first));
    return r->second ? take_assignment(r, r->second) : SL_OK;
}

static int send_request(struct sl_bus *bus, struct request *r)
{
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE;
    e.scale = &r->scale;
    return sl_bus_send(bus, NULL, &e);
}

static int take_answer(const struct request *r, const Sl__Control__ScaleDone *done)
{
    if (!done->ok)
        return sl_fail(SL_EFAILED, "job '%s': %s", r->job, done->message);
    printf("%s: %s\n", r->job, done->message);
    return SL_EXIT_OK;
}

static int ask(struct request *r, const struct sl_found_job *job)
{
    struct sl_bus *bus;
    Sl__Control__Envelope *m;
    SL_TRY(sl_bus_connect(job->endpoint, job->token, &bus));
    int rc = send_request(bus, r);
    uint64_t until = sl_now_ns() + r->timeout_s * 1000000000ull;
    bool answered = false;
    sl_interrupt_catch();
    while (rc == SL_OK && !answered) {
        int got = sl_bus_receive(bus, LOOK_MS, NULL, &m);
        if (got == SL_OK) {
            answered = m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_DONE;
            if (answered)
                rc = take_answer(r, m->scale_done);
            sl_bus_message_free(m);
        } else if (got != SL_EAGAIN) {
            rc = got;
        } else if (sl_interrupt_seen()) {
            rc = sl_fail(SL_EABORTED, "job '%s': not waiting any more; the change goes on", r->job);
        } else if (sl_now_ns() > until) {
            rc = sl_fail(SL_EFAILED,
                         "job '%s': the new split does not hold after %" PRIu64
                         " s; the change goes on: the job's log tells when it does",
                         r->job, r->timeout_s);
        } else if (kill(job->pid, 0) != 0 && errno == ESRCH) {
            rc = sl_fail(SL_EFAILED, "job '%s': it ended before the new split held", r->job);
        }
    }
    sl_bus_close(bus, LINGER_MS);
    return rc;
}

int sl_command_scale(int argc, char **argv)
{
    struct request r = {.timeout_s = 600, .scale = SL__CONTROL__SCALE__INIT};
    struct sl_found_job job;
    int rc = parse(argc, argv, &r);
    if (rc != SL_OK)
        return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
    SL_TRY(sl_find_job(r.job, &job));
    return ask(&r, &job);
}
