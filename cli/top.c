/*
 * top.c - `sluice top`: the live view of a job, and the keys that steer it.
 *
 * The view is a model that lines are put into and a screen that it is drawn on (cli/top). This
 * file is what is between them and the world: a session with the job, a terminal, a clock.
 *
 * It sleeps in poll() on both and draws at most MAX_PER_SECOND times a second, and no more often
 * than --interval unless a key was pressed. The list of jobs is asked for while it is looked at.
 *
 * THE TERMINAL is as it was on every way out: errors are returned, signals only set a flag, and the
 * log has nothing to say while there is a view, but for errors.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/job_list.h"
#include "cli/top/model.h"
#include "cli/top/terminal.h"
#include "cli/top/view.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/json_print.h"
#include "common/base/log.h"

enum {
    MAX_PER_SECOND = 10,
    LOOK_MS = 200,        // between two looks at whether the other side is still there
    LIST_MS = 2000,       // between two questions for the list of jobs
    ONCE_MS = 10000,      // for the first statistics with --once
    EMPTY_READS_MAX = 20, // a terminal that is readable and has nothing is gone
    DEFAULT_COLUMNS = 80,
    DEFAULT_ROWS = 24,
    ERROR_BYTES = 4096,
};

struct watch {
    struct sl_session_where where;
    const char *job;
    bool once, colour;
    double interval_s;

    struct sl_session session; // bus NULL: none is open
    struct sl_request describe;
    struct sl_top_model *model;
    struct sl_screen screen;
    bool ascii;
    bool described, dirty, pressed, quit;
    uint64_t drawn_ns, listed_ns;
    int empty_reads;
    struct {
        uint64_t pictures, messages, keys, turns;
    } count; // since it began
};

// --- messages ------------------------------------------------------------------------------------

static bool connected(const struct watch *w)
{
    return w->session.bus != NULL;
}

static void on_answer(struct watch *w, const Sl__Control__Envelope *m)
{
    struct sl_reply reply = {0};
    if (!sl_request_on_message(&w->describe, m, &reply)) {
        if (*m->answer->message)
            sl_top_notice(w->model, !m->answer->ok, m->answer->message);
        return;
    }
    w->described = true; // a refusal is no news: there is no history
    if (reply.json)
        sl_top_on_describe(w->model, reply.json);
    sl_reply_fini(&reply);
}

static void on_message(struct watch *w, const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_STATS: sl_top_on_stats(w->model, m->stats->json); break;
    case SL__CONTROL__ENVELOPE__BODY_EVENT: sl_top_on_event(w->model, m->event->json); break;
    case SL__CONTROL__ENVELOPE__BODY_JOB_STATE:
        sl_top_on_job_state(w->model, m->job_state->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS:
        sl_top_on_scale_step(w->model, m->scale_progress->text);
        break;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE:
        sl_top_on_scale_done(w->model, m->scale_done->ok, m->scale_done->message,
                             m->scale_done->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_ANSWER: on_answer(w, m); break;
    case SL__CONTROL__ENVELOPE__BODY_FINISHED:
        sl_top_on_finished(w->model, m->finished->exit_status, m->finished->message);
        break;
    default: return; // log lines and progress are for other commands
    }
    w->count.messages++;
    w->dirty = true;
}

// Takes what has come. The end of a job that is over is none of the view: it stays.
static int receive(struct watch *w)
{
    while (connected(w)) {
        Sl__Control__Envelope *m;
        int rc = sl_session_receive(&w->session, 0, &m);
        if (rc == SL_EAGAIN)
            return SL_OK;
        if (rc < 0 && w->model->over && !w->session.daemon && rc != SL_EABORTED) {
            sl_session_close(&w->session);
            return SL_OK;
        }
        if (rc < 0)
            return rc;
        on_message(w, m);
        sl_bus_message_free(m);
    }
    return SL_OK;
}

static int send_describe(struct watch *w)
{
    Sl__Control__Describe describe = SL__CONTROL__DESCRIBE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(DESCRIBE, describe, &describe);
    w->describe = sl_request_begin(0);
    e.request = w->describe.id;
    return sl_session_send(&w->session, &e);
}

static int send_pause(struct watch *w, bool pauses)
{
    Sl__Control__Pause pause = SL__CONTROL__PAUSE__INIT;
    Sl__Control__Resume resume = SL__CONTROL__RESUME__INIT;
    Sl__Control__Envelope p = SL_ENVELOPE(PAUSE, pause, &pause);
    Sl__Control__Envelope r = SL_ENVELOPE(RESUME, resume, &resume);
    return sl_session_send(&w->session, pauses ? &p : &r);
}

static int send_scale(struct watch *w, const struct sl_top_action *action)
{
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE, scale, &scale);
    scale.has_samplers = scale.has_trainers = true;
    scale.samplers = action->samplers;
    scale.trainers = action->trainers;
    scale.dry_run = action->dry_run;
    return sl_session_send(&w->session, &e);
}

// --- jobs ----------------------------------------------------------------------------------------

static int ask_list(struct watch *w)
{
    cJSON *list;
    w->listed_ns = sl_now_ns();
    SL_TRY(sl_job_list(&w->where, &list));
    char *json = sl_json_line(list);
    int rc = json ? sl_top_on_jobs(w->model, json) : sl_fail(SL_ENOMEM, "top: no memory");
    cJSON_Delete(list);
    free(json);
    w->dirty = true;
    return rc;
}

// A session is open: shows its job and asks for what there is to know of it.
static int begin(struct watch *w)
{
    struct sl_session *s = &w->session;
    w->described = false;
    sl_top_open(w->model, s->name, s->id, s->state);
    SL_TRY(sl_session_subscribe(s, false, true));
    return send_describe(w);
}

// Another job of the list. The view goes back to the one before it when this one cannot be seen.
static int open_job(struct watch *w, const char *job)
{
    struct sl_session next;
    int rc = sl_session_open(&w->where, job, &next);
    if (rc == SL_EABORTED)
        return rc;
    if (rc < 0) {
        sl_top_notice(w->model, true, sl_error_message());
        return SL_OK;
    }
    sl_session_close(&w->session);
    w->session = next;
    w->model->view = SL_TOP_OVERVIEW;
    return begin(w);
}

// The job that is meant; or, where several may be, their list.
static int open_first(struct watch *w)
{
    char why[ERROR_BYTES];
    int rc = sl_session_open(&w->where, w->job, &w->session);
    if (rc == SL_OK)
        return begin(w);
    if (w->job || (rc != SL_ENOENT && rc != SL_EINVAL))
        return rc;
    snprintf(why, sizeof why, "%s", sl_error_message());
    w->model->view = SL_TOP_JOBS_VIEW;
    if (ask_list(w) != SL_OK || w->model->jobs.n == 0)
        return sl_fail(rc, "%s", why);
    return SL_OK;
}

// --- drawing -------------------------------------------------------------------------------------

static int draw(struct watch *w, int width, int height)
{
    SL_TRY(sl_screen_init(&w->screen, width, height, w->ascii));
    sl_top_draw(w->model, &w->screen);
    return SL_OK;
}

// The size of the terminal, or what COLUMNS and LINES say, or 80 x 24.
static void text_size(int *width, int *height)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS"), *lines = getenv("LINES");
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    *width = known ? size.ws_col : columns ? atoi(columns) : 0;
    *height = known ? size.ws_row : lines ? atoi(lines) : 0;
    if (*width <= 0)
        *width = DEFAULT_COLUMNS;
    if (*height <= 0)
        *height = DEFAULT_ROWS;
}

static bool has_all(const struct watch *w)
{
    const struct sl_top_model *m = w->model;
    if (!connected(w))
        return true;
    return w->described && (m->have_stats || m->over || strcmp(m->state, "queued") == 0);
}

static int print_once(struct watch *w)
{
    uint64_t until = sl_now_ns() + ONCE_MS * 1000000ull;
    int width, height;
    while (!has_all(w) && sl_now_ns() < until) {
        Sl__Control__Envelope *m;
        int rc = sl_session_receive(&w->session, LOOK_MS, &m);
        w->model->now_ns = sl_now_ns();
        if (rc == SL_OK) {
            on_message(w, m);
            sl_bus_message_free(m);
        } else if (rc != SL_EAGAIN) {
            return rc;
        }
    }
    w->ascii = !sl_terminal_has_unicode(isatty(STDOUT_FILENO) ? getenv("TERM") : NULL);
    text_size(&width, &height);
    SL_TRY(draw(w, width, height));
    // The line for keys is of no use on paper.
    w->screen.height -= w->screen.height > 1;
    sl_screen_print(&w->screen, w->colour && isatty(STDOUT_FILENO), stdout);
    return SL_OK;
}

static int show(struct watch *w)
{
    int width, height;
    uint64_t now = sl_now_ns();
    sl_terminal_size(&width, &height);
    w->model->now_ns = now;
    SL_TRY(draw(w, width, height));
    sl_terminal_show(&w->screen);
    w->drawn_ns = now;
    w->count.pictures++;
    w->dirty = w->pressed = false;
    return SL_OK;
}

// --- keys ----------------------------------------------------------------------------------------

static int act(struct watch *w, const struct sl_top_action *action)
{
    switch (action->what) {
    case SL_TOP_NOTHING: return SL_OK;
    case SL_TOP_QUIT: w->quit = true; return SL_OK;
    case SL_TOP_OPEN: return open_job(w, action->job);
    case SL_TOP_SCALE:
    case SL_TOP_PAUSE:
    case SL_TOP_RESUME: break;
    }
    if (!connected(w)) {
        sl_top_notice(w->model, true, "the job is over");
        return SL_OK;
    }
    int rc = action->what == SL_TOP_SCALE ? send_scale(w, action)
                                          : send_pause(w, action->what == SL_TOP_PAUSE);
    if (rc == SL_EAGAIN) { // it does not read: the user may try again
        sl_top_notice(w->model, true, sl_error_message());
        rc = SL_OK;
    }
    return rc;
}

static int take_keys(struct watch *w, bool readable)
{
    int key, n = 0;
    while (!w->quit && (key = sl_terminal_key()) != 0) {
        n++;
        w->count.keys++;
        w->pressed = true;
        w->model->now_ns = sl_now_ns();
        if (key < 0)
            continue; // another size
        struct sl_top_action action = sl_top_key(w->model, key);
        SL_TRY(act(w, &action));
    }
    w->empty_reads = readable && n == 0 ? w->empty_reads + 1 : 0;
    if (w->empty_reads > EMPTY_READS_MAX)
        return sl_fail(SL_EIO, "top: the terminal is gone");
    return SL_OK;
}

// Milliseconds until the next picture is due; -1 when there is nothing to draw.
static int due_ms(const struct watch *w)
{
    uint64_t now = sl_now_ns();
    double least = w->pressed ? 0 : SL_MAX(w->interval_s, 1.0 / MAX_PER_SECOND);
    uint64_t at = w->drawn_ns + (uint64_t)(least * 1e9);
    // Without news the clock of "no news for 5 s" and messages that go still change.
    if (!w->dirty && !w->pressed)
        at = w->drawn_ns + SL_MAX((uint64_t)(least * 1e9), 1000000000ull);
    return at <= now ? 0 : (int)SL_MIN((at - now + 999999u) / 1000000u, 1000000u);
}

static int wait_for_news(struct watch *w)
{
    struct pollfd fds[2] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = connected(w) ? sl_bus_fd(w->session.bus) : -1, .events = POLLIN}};
    int n = poll(fds, 2, SL_MIN(due_ms(w), (int)LOOK_MS));
    return take_keys(w, n > 0 && fds[0].revents != 0);
}

static int watch(struct watch *w)
{
    while (!w->quit) {
        w->count.turns++;
        bool listing = w->model->view == SL_TOP_JOBS_VIEW;
        SL_TRY(sl_interrupt_check());
        SL_TRY(receive(w));
        if (listing && sl_now_ns() - w->listed_ns > LIST_MS * 1000000ull) {
            int rc = ask_list(w);
            if (rc == SL_EABORTED)
                return rc;
            if (rc < 0)
                sl_top_notice(w->model, true, sl_error_message());
        }
        if (due_ms(w) == 0)
            SL_TRY(show(w));
        SL_TRY(wait_for_news(w));
    }
    return SL_OK;
}

static int view(struct watch *w)
{
    enum sl_log_level level = sl_log_get_level();
    w->ascii = !sl_terminal_has_unicode(getenv("TERM"));
    int rc = sl_terminal_open(w->colour);
    if (rc < 0)
        return sl_fail(rc,
                       "top: %s: 'sluice top --once' prints a picture, 'sluice stats --follow' "
                       "a line a second",
                       sl_error_message());
    sl_log_set_level(SL_LOG_ERROR);
    w->dirty = true;
    uint64_t began = sl_now_ns();
    rc = watch(w);
    sl_terminal_close();
    sl_log_set_level(level);
    sl_log_debug("top: %" PRIu64 " pictures of %" PRIu64 " messages and %" PRIu64 " keys, %" PRIu64
                 " turns in %.3f s",
                 w->count.pictures, w->count.messages, w->count.keys, w->count.turns,
                 (double)(sl_now_ns() - began) * 1e-9);
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int init(const struct sl_command *c, void *state)
{
    struct watch *w = state;
    w->colour = sl_terminal_wants_colour();
    w->interval_s = 0.5;
    return SL_OK;
}

static int top(void *state)
{
    struct watch *w = state;
    w->model = malloc(sizeof *w->model);
    if (!w->model)
        return sl_fail(SL_ENOMEM, "top: no memory for a view");
    sl_top_init(w->model);
    sl_interrupt_catch();
    SL_TRY(open_first(w));
    return w->once ? print_once(w) : view(w);
}

static void release(void *state)
{
    struct watch *w = state;
    sl_session_close(&w->session);
    if (w->model)
        sl_top_fini(w->model);
    sl_screen_fini(&w->screen);
    free(w->model);
}

#define AT(kind, field) SL_OPTION_AT(kind, watch, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "once", AT(FLAG, once), .help = "print one picture as text and end"},
    {.name = "interval", AT(REAL, interval_s), .placeholder = "SECONDS", .min = 0.1, .max = 3600,
     .help = "the least time between two pictures"},
    {.name = "color", AT(FLAG, colour), .no_default = true,
     .help = "colours; --no-color: none, as with NO_COLOR in the environment"},
    {0},
};
// clang-format on

const struct sl_command sl_command_top = {
    .name = "top",
    .help = "watch a job: the pipeline live, with keys to steer it",
    .about = "Shows a running job as a picture: samplers, queue, trainers, devices, what holds "
             "it up, and how that\nchanges. Keys scale it (+ - t T), pause it (p), and change "
             "the view (1 to 5, Tab); h lists them.\nJOB is its number, its name or its run "
             "directory; without it, the only one that runs, or a list\nto choose from. q "
             "leaves; the job goes on.",
    .example = "sluice top products-sage\nsluice top --once | head -20",
    .operands = {{"JOB", offsetof(struct watch, job), true}},
    .options = {{options}, {sl_session_options, offsetof(struct watch, where)}},
    .bytes = sizeof(struct watch),
    .init = init,
    .run = top,
    .fini = release,
};
