/*
 * scale.c - `sluice scale JOB samplers=N trainers=M`: changes the split of a running job.
 *
 * The job's broker says first what it will do and what that is expected to bring, then what is
 * being waited for, and in the end that the new split holds, or why it cannot be. The command can
 * be interrupted at any time: the change goes on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/session.h"
#include "common/text/suggest.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/schema/words.h"

enum { ROLE_MAX = 1024, LOOK_MS = 200 };
enum { NODE_MAX = 1 << 16, NO_NODE }; // a rank

struct request {
    struct sl_session_where where;
    const char *job, *first, *second;
    uint64_t timeout_s;
    uint32_t node; // NO_NODE: all of them
    bool detach, dry_run, undo;
    int output;
    struct sl_session session;
    Sl__Control__Scale scale;
    // what has been heard
    struct sl_request asked;
    bool accepted, answered;
};

static const char *const roles[] = {"samplers", "trainers"};

// What was meant instead of "samplers=N": the words in another order, another name, a blank.
static int wrong_word(const struct request *r, const char *text)
{
    char name[32];
    size_t n = strcspn(text, "=: ");
    snprintf(name, sizeof name, "%.*s", (int)SL_MIN(n, sizeof name - 1), text);
    const char *role = sl_suggest_closest(name, roles, SL_COUNT_OF(roles));
    const char *number = text[n] ? text + n + 1 : text == r->first && r->second ? r->second : "";
    bool whole = *number && strspn(number, "0123456789") == strlen(number);
    if (role)
        return sl_fail(SL_EINVAL,
                       "scale: found '%s', wanted samplers=N or trainers=M: did you mean '%s=%s'?",
                       text, role, whole ? number : "2");
    if (strncmp(r->job, "samplers=", 9) == 0 || strncmp(r->job, "trainers=", 9) == 0)
        return sl_fail(SL_EINVAL,
                       "scale: found '%s' where the job stands, wanted it first: did you mean "
                       "'sluice scale %s %s'?",
                       r->job, text, r->job);
    return sl_fail(SL_EINVAL,
                   "scale: found '%s', wanted samplers=N or trainers=M: write 'sluice scale %s "
                   "samplers=2', or both of them",
                   text, r->job);
}

// "samplers=2"
static int take_assignment(struct request *r, const char *text)
{
    protobuf_c_boolean *const given[] = {&r->scale.has_samplers, &r->scale.has_trainers};
    uint32_t *const into[] = {&r->scale.samplers, &r->scale.trainers};
    const size_t length = strlen(roles[0]); // of both
    size_t role = strncmp(text, roles[0], length) != 0;
    if (strncmp(text, roles[role], length) != 0 || text[length] != '=')
        return wrong_word(r, text);
    char *end;
    const char *value = text + length + 1;
    unsigned long n = strtoul(value, &end, 10);
    if (end == value || *end || *value == '-' || n > ROLE_MAX)
        return sl_fail(SL_EINVAL, "scale: found '%s', wanted a whole number from 1 to %d", text,
                       ROLE_MAX);
    if (n == 0)
        return sl_fail(SL_EINVAL, "scale: found '%s', wanted at least 1: nobody would %s", text,
                       role ? "train" : "draw batches");
    if (*given[role])
        return sl_fail(SL_EINVAL, "scale: %s is given twice", roles[role]);
    *given[role] = true;
    *into[role] = (uint32_t)n;
    return SL_OK;
}

static int check_request(struct request *r)
{
    if (r->first && r->scale.undo)
        return sl_fail(SL_EINVAL,
                       "scale: found '%s' and --undo, wanted one of them: --undo goes back to the "
                       "split before the last change",
                       r->first);
    if (!r->first && !r->scale.undo)
        return sl_fail(SL_EINVAL,
                       "scale: found no split, wanted samplers=N, trainers=M or both, or --undo: "
                       "'sluice scale %s samplers=2' lets two sample, and 'sluice stats %s' shows "
                       "what there is now",
                       r->job, r->job);
    if (r->first)
        SL_TRY(take_assignment(r, r->first));
    return r->second ? take_assignment(r, r->second) : SL_OK;
}

// --- the conversation ----------------------------------------------------------------------------

// A plan is one line of parts; each is a line here.
static void print_plan(const struct sl_session *s, const char *text)
{
    printf("%s: ", s->name);
    for (const char *part; (part = strstr(text, "; ")) != NULL; text = part + 2)
        printf("%.*s\n  ", (int)(part - text), text);
    printf("%s\n", text);
    fflush(stdout);
}

static void take_progress(struct request *r, const struct sl_session *s,
                          const Sl__Control__ScaleProgress *progress)
{
    bool first = !r->accepted;
    r->accepted = true;
    if (r->output == SL_OUTPUT_JSON) {
        if (first && r->detach)
            printf("%s\n", progress->json);
        return;
    }
    if (first) {
        print_plan(s, progress->text);
        if (r->detach)
            printf("accepted; 'sluice stats %s' shows when it holds\n", s->name);
    } else {
        fprintf(stderr, "%s: %s\n", s->name, progress->text);
    }
}

static int refused(const struct sl_session *s, const char *message)
{
    bool over = sl_job_state_has_ended(s->state);
    const char *rest = over ? ": there is nothing to scale" : "";
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", message, rest);
    return sl_session_refusal(s, SL_EFAILED, whole);
}

static int take_done(struct request *r, const struct sl_session *s,
                     const Sl__Control__ScaleDone *done)
{
    r->answered = true;
    if (r->output == SL_OUTPUT_JSON && *done->json)
        printf("%s\n", done->json);
    if (!done->ok)
        return refused(s, done->message);
    if (r->output == SL_OUTPUT_JSON)
        return SL_OK;
    print_plan(s, done->message);
    if (r->scale.dry_run)
        printf("nothing has been changed: this was a dry run\n");
    return SL_OK;
}

static int take_message(struct request *r, const struct sl_session *s,
                        const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS:
        take_progress(r, s, m->scale_progress);
        return SL_OK;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE: return take_done(r, s, m->scale_done);
    case SL__CONTROL__ENVELOPE__BODY_ANSWER: // the daemon could not ask the job
        r->answered = true;
        return sl_session_refusal(s, m->answer->code < 0 ? m->answer->code : SL_EFAILED,
                                  m->answer->message);
    default: return SL_OK;
    }
}

static int converse(struct request *r, struct sl_session *s)
{
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE, scale, &r->scale), *m;
    r->asked = sl_request_begin(r->timeout_s * 1000);
    e.request = r->asked.id;
    SL_TRY(sl_session_send(s, &e));
    while (!r->answered && !(r->accepted && r->detach)) {
        int rc = sl_session_receive(s, LOOK_MS, &m);
        if (rc == SL_OK) {
            rc = m->request == r->asked.id ? take_message(r, s, m) : SL_OK;
            sl_bus_message_free(m);
        } else if (rc == SL_EAGAIN) {
            rc = sl_request_left_ms(&r->asked)
                     ? SL_OK
                     : sl_fail(SL_EFAILED,
                               "job '%s': the new split does not hold after %" PRIu64
                               " s; the change goes on: the job's log tells when it does",
                               s->name, r->timeout_s);
        } else if (rc == SL_EABORTED) {
            sl_fail(rc, "job '%s': not waiting any more; the change goes on", s->name);
        } else if (rc == SL_EFAILED && !s->daemon) {
            sl_fail(rc, "job '%s': it ended before the new split held", s->name);
        }
        SL_TRY(rc);
    }
    return SL_OK;
}

// The run directory of a job of `sluice run` that has ended is all that is left of it.
static bool is_finished_run(const char *job)
{
    char path[4096];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/report.json", job);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
}

static int scale(void *state)
{
    struct request *r = state;
    r->scale.dry_run = r->dry_run;
    r->scale.undo = r->undo;
    r->scale.node = r->node;
    r->scale.has_node = r->node != NO_NODE;
    SL_TRY(check_request(r));
    sl_interrupt_catch();
    int rc = sl_session_open(&r->where, r->job, &r->session);
    if (rc == SL_ENOENT && is_finished_run(r->job))
        return sl_fail(SL_EFAILED, "job of '%s': it is over: there is nothing to scale", r->job);
    SL_TRY(rc);
    return converse(r, &r->session);
}

static void release(void *state)
{
    sl_session_close(&((struct request *)state)->session);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "dry-run", AT(FLAG, dry_run),
     .help = "only say what would be done and what it is expected to bring"},
    {.name = "detach", AT(FLAG, detach),
     .help = "return once the change is accepted, not when it holds"},
    {.name = "undo", AT(FLAG, undo),
     .help = "back to the split before the last change that somebody asked for; that is a change, "
             "too: a second --undo undoes the first"},
    {.name = "node", AT(UINT, node), .placeholder = "K", .max = NODE_MAX, .no_default = true,
     .help = "of a job over several nodes: only on the one of this rank ('sluice stats JOB' shows "
             "them), not on all"},
    {.name = "timeout", AT(UINT, timeout_s), .placeholder = "SECONDS", .min = 1, .max = 86400,
     .help = "how long to wait until the new split holds; the change goes on after that"},
    {0},
};
// clang-format on

const struct sl_command sl_command_scale = {
    .name = "scale",
    .help = "change how many workers of a running job sample and train",
    .about =
        "Changes how many workers of a running job sample and how many train. JOB is its "
        "number, its name\nor its run directory; what is not given stays. Says what will "
        "be done and what it is expected to\nbring, and returns once the new split holds: "
        "batches in hand are finished or given back, and none\nis lost. A split that "
        "somebody asked for stays: the job's profile does not move it any more.\n"
        "Each has a device of its own; a pool of cores runs up to two workers a core.\n"
        "A job over several nodes has a split on each: all are changed, if all of them can be, "
        "or --node.\n"
        "Status 1: the job could not or did not do it, and the reason. Ctrl-C ends the "
        "waiting (status\n130); the change goes on.",
    .example = "sluice scale products-sage samplers=1 trainers=3\n"
               "sluice scale products-sage samplers=2 --dry-run\n"
               "sluice scale products-sage trainers=2 --node 1\n"
               "sluice scale products-sage --undo",
    .operands = {{"JOB", offsetof(struct request, job)},
                 {"samplers=N", offsetof(struct request, first), true},
                 {"trainers=M", offsetof(struct request, second), true}},
    .options = {{options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .defaults = &(
        const struct request){.timeout_s = 600, .node = NO_NODE, .scale = SL__CONTROL__SCALE__INIT},
    .run = scale,
    .fini = release,
};
