#include "cli/top/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/schema/words.h"

enum { ROLE_MAX = 1024 };

void sl_top_init(struct sl_top_model *m)
{
    *m = (struct sl_top_model){0};
}

static void forget_stats(struct sl_top_model *m)
{
    sl_stats_fini(&m->stats);
    while (m->n_past > 0)
        sl_stats_fini(&m->past[--m->n_past]);
}

void sl_top_fini(struct sl_top_model *m)
{
    forget_stats(m);
    sl_top_jobs_fini(&m->jobs);
    *m = (struct sl_top_model){0};
}

// The text may be what stands there already.
static void copy(char *out, size_t n, const char *text)
{
    size_t length = text ? strnlen(text, n - 1) : 0;
    memmove(out, text ? text : "", length);
    out[length] = 0;
}

#define COPY(field, text) copy(field, sizeof(field), text)

void sl_top_open(struct sl_top_model *m, const char *name, const char *id, const char *state)
{
    COPY(m->name, name);
    COPY(m->id, id);
    COPY(m->state, state);
    m->said[0] = 0;
    m->over = sl_job_state_has_ended(m->state);
    m->have_stats = false;
    forget_stats(m);
    m->history = (struct sl_stats_history){0};
    m->first_event = m->n_events = 0;
    m->question = (struct sl_top_question){0};
    m->scaling = false;
    m->scroll = 0;
    m->chosen = false;
    m->types = false;
    m->notice[0] = 0;
}

void sl_top_notice(struct sl_top_model *m, bool bad, const char *text)
{
    COPY(m->notice, text);
    m->notice_bad = bad;
    m->notice_until_ns = m->now_ns + SL_TOP_NOTICE_S * 1000000000ull;
}

// --- statistics and events -----------------------------------------------------------------------

static void keep_past(struct sl_top_model *m, struct sl_stats *s)
{
    if (m->n_past == SL_TOP_PAST) {
        sl_stats_fini(&m->past[0]);
        memmove(m->past, m->past + 1, (SL_TOP_PAST - 1) * sizeof *m->past);
        m->n_past--;
    }
    m->past[m->n_past++] = *s;
}

static bool is_same_link(const struct sl_stats_link *a, const struct sl_stats_link *b)
{
    return a->reader == b->reader && strcmp(a->from, b->from) == 0 && strcmp(a->kind, b->kind) == 0;
}

double sl_top_rate(const struct sl_top_model *m, double before, double now)
{
    if (m->n_past == 0 || !(m->stats.seconds > m->past[0].seconds))
        return NAN;
    return now >= before ? (now - before) / (m->stats.seconds - m->past[0].seconds) : NAN;
}

double sl_top_link_rate(const struct sl_top_model *m, const struct sl_stats_link *link)
{
    const struct sl_stats *past = &m->past[0];
    double before = 0; // what a link has that is not in the list yet
    for (size_t i = 0; m->n_past > 0 && i < past->n_links; i++)
        if (is_same_link(&past->links[i], link)) {
            before = past->links[i].bytes;
            break;
        }
    return sl_top_rate(m, before, link->bytes);
}

int sl_top_on_stats(struct sl_top_model *m, const char *json)
{
    struct sl_stats stats = {0};
    SL_TRY(sl_top_stats_parse(json, &stats));
    if (m->have_stats && stats.seconds > m->stats.seconds)
        keep_past(m, &m->stats);
    else
        forget_stats(m);
    m->stats = stats;
    m->have_stats = true;
    m->stats_at_ns = m->now_ns;
    if (!m->over) {
        COPY(m->state, m->stats.state);
        m->said[0] = 0;
    }
    sl_stats_history_add(&m->history, m->stats.line);
    return SL_OK;
}

// How it ended: what was said of it, else what its last event tells.
static void say_end(struct sl_top_model *m, const char *message)
{
    COPY(m->said, message);
    for (size_t i = 0; !m->said[0] && i < m->n_events; i++)
        if (strcmp(sl_top_event_at(m, i)->kind, "end") == 0)
            COPY(m->said, sl_top_event_at(m, i)->text);
}

int sl_top_on_event(struct sl_top_model *m, const char *json)
{
    struct sl_top_event event;
    SL_TRY(sl_top_event_parse(json, &event));
    for (size_t i = 0; i < m->n_events; i++) {
        const struct sl_top_event *old = sl_top_event_at(m, i);
        if (old->time == event.time && strcmp(old->text, event.text) == 0)
            return SL_OK; // it came before the history that has it too
    }
    if (m->n_events == SL_TOP_EVENTS) {
        m->first_event = (m->first_event + 1) % SL_TOP_EVENTS;
        m->n_events--;
    }
    // Statistics would tell it only with the next line, after a key that means the opposite.
    if (m->have_stats && !m->over && event.time > m->stats.time) {
        if (strcmp(event.kind, "pause") == 0)
            COPY(m->state, "paused");
        else if (strcmp(event.kind, "resume") == 0)
            COPY(m->state, "running");
    }
    // In order of time, whichever way it came.
    size_t at = m->n_events++;
    for (; at > 0; at--) {
        struct sl_top_event *old = &m->events[(m->first_event + at - 1) % SL_TOP_EVENTS];
        if (!(old->time > event.time))
            break;
        m->events[(m->first_event + at) % SL_TOP_EVENTS] = *old;
    }
    m->events[(m->first_event + at) % SL_TOP_EVENTS] = event;
    if (m->over && !m->said[0])
        say_end(m, "");
    return SL_OK;
}

const struct sl_top_event *sl_top_event_at(const struct sl_top_model *m, size_t i)
{
    if (i >= m->n_events)
        return NULL;
    return &m->events[(m->first_event + m->n_events - 1 - i) % SL_TOP_EVENTS];
}

static void on_old_event(void *arg, const char *line)
{
    sl_top_on_event(arg, line);
}

int sl_top_on_describe(struct sl_top_model *m, const char *json)
{
    char *stats;
    SL_TRY(sl_top_describe_parse(json, on_old_event, m, &stats));
    int rc = stats && !m->have_stats ? sl_top_on_stats(m, stats) : SL_OK;
    free(stats);
    return rc;
}

void sl_top_on_finished(struct sl_top_model *m, int exit_status, const char *message)
{
    if (!m->over) // else the daemon's word for it is known: it may be "interrupted"
        COPY(m->state, exit_status == 0 ? "done" : exit_status == 130 ? "stopped" : "failed");
    m->over = true;
    m->scaling = false;
    m->question.open = false;
    say_end(m, message);
}

// --- the list of jobs ----------------------------------------------------------------------------

// What the list says of the job that is shown: all there is to know while it waits in the queue.
static void look_up(struct sl_top_model *m)
{
    m->selected = SL_MAX(0, SL_MIN(m->selected, (int)m->jobs.n - 1));
    for (size_t i = 0; i < m->jobs.n && m->id[0]; i++) {
        const struct sl_top_job *j = &m->jobs.jobs[i];
        if (strcmp(j->id, m->id) != 0)
            continue;
        bool over = sl_job_state_has_ended(j->state);
        if (m->over && !over) { // it goes on: `sluice resume`
            m->over = false;
            m->said[0] = 0;
        }
        if (over || !m->have_stats)
            COPY(m->state, j->state);
        if (over)
            m->over = true;
        if (over)
            say_end(m, j->message);
        else if (!m->have_stats)
            COPY(m->said, j->message[0] ? j->message : j->why);
    }
}

// Until the user chooses, the job that is shown is the selected one.
static void select_shown(struct sl_top_model *m)
{
    for (size_t i = 0; i < m->jobs.n && !m->chosen && m->name[0]; i++) {
        const struct sl_top_job *j = &m->jobs.jobs[i];
        if (strcmp(j->id, m->id) == 0 && strcmp(j->name, m->name) == 0)
            m->selected = (int)i;
    }
}

int sl_top_on_jobs(struct sl_top_model *m, const char *json)
{
    SL_TRY(sl_top_jobs_parse(json, &m->jobs));
    m->have_jobs = true;
    select_shown(m);
    look_up(m);
    return SL_OK;
}

int sl_top_on_job_state(struct sl_top_model *m, const char *json)
{
    SL_TRY(sl_top_jobs_update(&m->jobs, json));
    look_up(m);
    return SL_OK;
}

// --- changes of the split ------------------------------------------------------------------------

void sl_top_on_scale_step(struct sl_top_model *m, const char *text)
{
    m->scaling = true;
    COPY(m->scale_step, text);
}

static void answer_question(struct sl_top_model *m, bool ok, const char *message,
                            const struct sl_top_scale *scale)
{
    struct sl_top_question *q = &m->question;
    char now[64] = "", steps[SL_TOP_SENTENCE];
    if (!q->open)
        return;
    if (!ok) {
        q->open = false;
        sl_top_notice(m, true, message);
        return;
    }
    // Of an older question: the user has gone on.
    if (scale && (scale->samplers != q->samplers || scale->trainers != q->trainers))
        return;
    q->answered = true;
    COPY(steps, scale && scale->steps[0] ? scale->steps : message);
    if (scale && isfinite(scale->now) && isfinite(scale->then))
        snprintf(now, sizeof now, "epoch %.3g s -> %.3g s: ", scale->now, scale->then);
    snprintf(q->answer, sizeof q->answer, "%s%.400s", now, steps);
}

void sl_top_on_scale_done(struct sl_top_model *m, bool ok, const char *message, const char *json)
{
    struct sl_top_scale scale;
    bool known = json && *json && sl_top_scale_parse(json, &scale) == SL_OK;
    // Without the answer's form for programs: while a question is open nothing else is under way.
    if (known ? scale.dry_run : m->question.open) {
        answer_question(m, ok, message, known ? &scale : NULL);
        return;
    }
    m->scaling = false;
    sl_top_notice(m, !ok, message);
}

static const struct sl_top_action nothing = {.what = SL_TOP_NOTHING};

// Devices that have neither role, while the user has not said anything else.
static uint32_t free_devices(const struct sl_stats *s, uint32_t used)
{
    return s->places > used ? (uint32_t)s->places - used : 0;
}

static bool is_pool(const struct sl_stats *s)
{
    return strcmp(s->cores, "pool") == 0;
}

/*
 * One more or one less of a role. A device that is free is taken first; else the other role gives
 * one. A sampler that goes makes its device a trainer; a trainer that goes leaves its device free.
 * Who goes from a pool of cores leaves its cores to all others.
 */
static struct sl_top_action ask_split(struct sl_top_model *m, int samplers, int trainers)
{
    struct sl_top_question *q = &m->question;
    uint32_t s = q->samplers, t = q->trainers;
    if (m->over || !m->have_stats || !isfinite(m->stats.samplers) || !isfinite(m->stats.trainers)) {
        sl_top_notice(m, true,
                      m->over ? "the job is over: its split stays what it was"
                              : "the job does not run yet: there is no split to change");
        return nothing;
    }
    if (!q->open) {
        s = (uint32_t)SL_MAX(0.0, SL_MIN((double)ROLE_MAX, m->stats.samplers));
        t = (uint32_t)SL_MAX(0.0, SL_MIN((double)ROLE_MAX, m->stats.trainers));
    }
    bool takes = free_devices(&m->stats, s + t) == 0;
    if (samplers > 0) {
        t -= takes && t > 0;
        s++;
    } else if (samplers < 0) {
        s -= s > 0;
        t += !is_pool(&m->stats);
    } else if (trainers > 0) {
        s -= takes && s > 0;
        t++;
    } else {
        t -= t > 0;
    }
    if (s == 0 || t == 0 || s > ROLE_MAX || t > ROLE_MAX) {
        sl_top_notice(m, true,
                      s == 0 ? "there has to be a sampler: nobody else draws batches"
                             : "there has to be a trainer: nobody else trains");
        return nothing;
    }
    *q = (struct sl_top_question){.open = true, .samplers = s, .trainers = t};
    return (struct sl_top_action){
        .what = SL_TOP_SCALE, .samplers = s, .trainers = t, .dry_run = true};
}

static struct sl_top_action confirm(struct sl_top_model *m)
{
    struct sl_top_question *q = &m->question;
    q->open = false;
    m->scaling = true;
    COPY(m->scale_step, "asked");
    return (struct sl_top_action){
        .what = SL_TOP_SCALE, .samplers = q->samplers, .trainers = q->trainers};
}

// --- keys ----------------------------------------------------------------------------------------

static void show(struct sl_top_model *m, enum sl_top_view view)
{
    m->view = view;
    m->types = false;
    m->scroll = 0;
}

static void move(struct sl_top_model *m, int rows)
{
    const bool lists = m->view == SL_TOP_JOBS_VIEW && !m->types;
    m->chosen = m->chosen || lists;
    if (lists)
        m->selected = SL_MAX(0, SL_MIN(m->selected + rows, (int)m->jobs.n - 1));
    else
        m->scroll = SL_MAX(0, m->scroll + rows); // the view knows how long it is
}

static struct sl_top_action pause_or_resume(struct sl_top_model *m)
{
    if (m->over || !m->have_stats) {
        sl_top_notice(m, true,
                      m->over ? "the job is over: there is nothing to pause"
                              : "the job does not run yet: there is nothing to pause");
        return nothing;
    }
    bool paused = strcmp(m->state, "paused") == 0;
    return (struct sl_top_action){.what = paused ? SL_TOP_RESUME : SL_TOP_PAUSE};
}

static void show_types(struct sl_top_model *m)
{
    if (m->stats.n_types > 0)
        m->types = !m->types;
    else
        sl_top_notice(m, true,
                      m->have_stats ? "the graph of this job has one type of vertices"
                                    : "nothing has been measured yet");
    m->scroll = 0;
}

static struct sl_top_action open_selected(struct sl_top_model *m)
{
    if (m->types || m->view != SL_TOP_JOBS_VIEW || m->selected >= (int)m->jobs.n)
        return nothing;
    const struct sl_top_job *j = &m->jobs.jobs[m->selected];
    return (struct sl_top_action){.what = SL_TOP_OPEN,
                                  .job = j->id[0]       ? j->id
                                         : j->output[0] ? j->output
                                                        : j->name};
}

struct sl_top_action sl_top_key(struct sl_top_model *m, int key)
{
    if (m->help && key != 'q') {
        m->help = false; // any key closes it
        return nothing;
    }
    if (m->question.open) {
        if (key == 'y' || key == 'Y' || key == SL_KEY_ENTER)
            return confirm(m);
        if (key == 'n' || key == 'N' || key == SL_KEY_ESCAPE) {
            m->question.open = false;
            sl_top_notice(m, false, "nothing was changed");
            return nothing;
        }
    }
    switch (key) {
    case 'q': return (struct sl_top_action){.what = SL_TOP_QUIT};
    case 'h':
    case '?': m->help = true; break;
    case '+':
    case '=': return ask_split(m, 1, 0);
    case '-': return ask_split(m, -1, 0);
    case 't':
    case ']': return ask_split(m, 0, 1);
    case 'T':
    case '[': return ask_split(m, 0, -1);
    case 'p': return pause_or_resume(m);
    case 'r': show_types(m); break;
    case SL_KEY_ESCAPE: m->types = false; break;
    case SL_KEY_TAB:
    case SL_KEY_RIGHT: show(m, (m->view + 1) % SL_TOP_VIEWS); break;
    case SL_KEY_BACK_TAB:
    case SL_KEY_LEFT: show(m, (m->view + SL_TOP_VIEWS - 1) % SL_TOP_VIEWS); break;
    case SL_KEY_DOWN:
    case 'j': move(m, 1); break;
    case SL_KEY_UP:
    case 'k': move(m, -1); break;
    case SL_KEY_PAGE_DOWN:
    case ' ': move(m, 10); break;
    case SL_KEY_PAGE_UP: move(m, -10); break;
    case SL_KEY_ENTER:
    case '\r': return open_selected(m);
    default:
        if (key >= '1' && key < '1' + SL_TOP_VIEWS)
            show(m, (enum sl_top_view)(key - '1'));
    }
    return nothing;
}
