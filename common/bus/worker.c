/*
 * worker.c - the life of a worker outside its work.
 *
 * A worker has two threads that know the bus: the main one sends (Hello, Ready, Failed) and, until
 * it is attached, receives; afterwards a listening thread receives. A ZeroMQ socket belongs to one
 * thread at a time, so both hold `lock` while they touch it. The listener sleeps in poll(2) on the
 * bus's descriptor, which is edge-triggered and may fire for the sender's own doings, so whoever
 * sends rings `poke` afterwards and the listener looks again.
 *
 * DEATH OF THE BROKER. The kernel sends SIGKILL to this process when its parent dies. The parent
 * may have died before that was armed, so we look afterwards whether it is still the one that
 * --broker names (or, without it, the one we had before). An external trainer is nobody's child
 * here: the connection by which it attached ends with the broker, and the listener watches it. With
 * its broker gone the arena is of no use to anybody, so the listener aborts it: all waits end.
 */
#include "common/bus/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/isa.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/threads.h"
#include "common/bus/attach_protocol.h"
#include "common/text/options.h"

enum {
    LEAVE_MS = 1000, // for a last message to reach the broker
    LOOK_MS = 100,
    END_MS = 60000, // for the broker to end a job that cannot go on
    NOTES_MAX = 8,  // that wait for a link: a broker sends three
};

static const struct {
    const char *word;
    Sl__Control__Role role;
} roles[] = {
    {"sampler", SL__CONTROL__ROLE__ROLE_SAMPLER},
    {"trainer", SL__CONTROL__ROLE__ROLE_TRAINER},
    {"link", SL__CONTROL__ROLE__ROLE_LINK},
};

struct kept {
    struct kept *next;
    Sl__Control__Envelope *message; // owned
};

struct sl_worker_thread {
    pthread_mutex_t lock; // guards the bus
    pthread_t thread;
    bool running;
    int poke; // eventfd: the socket was used by somebody else, or it is time to leave
    _Atomic bool leave;
    Sl__Control__Role role;
    char end[SL_ATTACH_TEXT]; // external: why the job ended; guarded by lock
    // of a link; guarded by lock
    uint32_t n_notes;
    struct sl_worker_note notes[NOTES_MAX];
    struct kept *kept, **last_kept; // owned: as many as brokers have under way; *last_kept ends it
};

// Reaches of fail-points while no arena is mapped; in between they are counted there.
static _Atomic uint32_t early_reaches[SL_FAILPOINT_COUNT];

// --- start ---------------------------------------------------------------------------------------

struct arguments {
    uint32_t worker, slot, role_index, device, broker, start;
    const char *endpoint;
};

#define NUMBER(field, least, most)                                                                 \
    SL_OPTION_AT(UINT, arguments, field), .placeholder = "N", .min = least, .max = most,           \
                                          .no_default = true
// clang-format off
static const struct sl_option options[] = {
    {.name = "worker", NUMBER(worker, 1, UINT16_MAX), .required = true, .help = "its id"},
    {.name = "slot", NUMBER(slot, 0, UINT16_MAX), .required = true,
     .help = "its seat in the arena"},
    {.name = "role-index", NUMBER(role_index, 0, UINT16_MAX), .required = true,
     .help = "its number among those of its role"},
    {.name = "device", NUMBER(device, 0, UINT16_MAX), .required = true,
     .help = "which of the job's devices it works on"},
    {.name = "endpoint", SL_OPTION_AT(TEXT, arguments, endpoint), .placeholder = "E",
     .required = true, .help = "where the broker is"},
    {.name = "broker", NUMBER(broker, 0, INT32_MAX), .help = "the broker's process"},
    {.name = "start", NUMBER(start, 0, UINT32_MAX), .help = "how many of its role have started"},
    {0},
};
// clang-format on

static int parse_arguments(const char *role, int argc, char **argv, struct arguments *out)
{
    char name[32];
    snprintf(name, sizeof name, "sluice-%s", role);
    const struct sl_command c = {
        .name = name,
        .is_program = true,
        .about = "A worker of a job. The broker starts this program; run 'sluice run JOB.json'.",
        .options = {{options}},
    };
    return sl_options_parse(&c, out, argc, argv);
}

// A batch system tells a whole job at once that its time is over; what follows is the broker's to
// decide, and a worker that dies of it would only be replaced.
static void leave_stopping_to_the_broker(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_IGN);
}

static int arm_death_signal(pid_t broker)
{
    leave_stopping_to_the_broker();
    if (broker == 0)
        broker = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return sl_fail_errno(SL_ESYS, errno, "asking to be killed when the broker dies");
    if (getppid() != broker)
        return sl_fail(SL_EABORTED, "the broker (process %d) is gone already", (int)broker);
    return SL_OK;
}

static int connect_to_broker(struct sl_worker *w, const char *endpoint)
{
    char key[SL_BUS_KEY_TEXT];
    int rc = sl_bus_key_read(w->fd.key, key);
    if (rc == SL_OK)
        rc = sl_bus_connect(endpoint, key, &w->bus);
    explicit_bzero(key, sizeof key);
    return rc;
}

int sl_worker_open(struct sl_worker *w, const char *role, const char *endpoint)
{
    struct sl_worker_thread *t = calloc(1, sizeof *t);
    if (!t)
        return sl_fail(SL_ENOMEM, "starting %s: no memory", w->name);
    w->thread = t;
    pthread_mutex_init(&t->lock, NULL);
    t->last_kept = &t->kept;
    for (size_t i = 0; i < SL_COUNT_OF(roles); i++)
        if (strcmp(role, roles[i].word) == 0)
            t->role = roles[i].role;
    t->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->poke < 0)
        return sl_fail_errno(SL_ESYS, errno, "starting %s: eventfd", w->name);
    SL_TRY(sl_failpoint_init());
    SL_TRY(sl_isa_init());
    SL_TRY(connect_to_broker(w, endpoint));
    return sl_assignment_read(w->fd.config, &w->told);
}

static struct sl_worker_fds inherited(void)
{
    struct sl_worker_fds fd = {
        .arena = SL_WORKER_FD_ARENA,
        .config = SL_WORKER_FD_CONFIG,
        .doorbell = SL_WORKER_FD_DOORBELL,
        .acts = SL_WORKER_FD_ACTS,
        .key = SL_WORKER_FD_KEY,
    };
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        fd.shared[i] = SL_WORKER_FD_SHARED + i;
    return fd;
}

int sl_worker_init(struct sl_worker *w, const char *role, int argc, char **argv)
{
    struct arguments a = {0};
    memset(w, 0, sizeof *w);
    w->start_ns = sl_now_ns();
    w->arena.fd = w->arena.doorbell = w->broker_fd = -1;
    w->fd = inherited();
    int rc = parse_arguments(role, argc, argv, &a);
    if (rc != SL_OK)
        return rc;
    SL_TRY(arm_death_signal((pid_t)a.broker));
    w->id = a.worker;
    w->slot = a.slot;
    w->role_index = a.role_index;
    w->device = a.device;
    snprintf(w->name, sizeof w->name, "%s %u", role, w->role_index);
    sl_log_init(w->name);

    // A replacement does not fall over the fail-point at which the one before it died: until the
    // arena counts for all, the broker tells how many have started.
    early_reaches[SL_FAILPOINT_SAMPLER_START] = a.start;
    early_reaches[SL_FAILPOINT_TRAINER_START] = a.start;
    early_reaches[SL_FAILPOINT_SHARED_COPY] = (uint32_t)a.start;
    sl_failpoint_bind(early_reaches);
    return sl_worker_open(w, role, a.endpoint);
}

// --- messages ------------------------------------------------------------------------------------

static void poke(struct sl_worker_thread *t)
{
    uint64_t one = 1;
    ssize_t ignored = write(t->poke, &one, sizeof one); // full means: rung already
    (void)ignored;
}

int sl_worker_send(struct sl_worker *w, Sl__Control__Envelope *body)
{
    pthread_mutex_lock(&w->thread->lock);
    int rc = sl_bus_send(w->bus, NULL, body);
    pthread_mutex_unlock(&w->thread->lock);
    poke(w->thread);
    if (rc == SL_EAGAIN)
        return sl_fail(SL_EAGAIN, "%s: the broker takes no messages", w->name);
    return rc;
}

// Under the lock. The broker says no more than there is room for.
static void keep_note(struct sl_worker_thread *t, const Sl__Control__Note *note)
{
    if (t->n_notes == NOTES_MAX)
        return;
    struct sl_worker_note *n = &t->notes[t->n_notes++];
    n->kind = note->kind;
    n->status = note->status;
    snprintf(n->text, sizeof n->text, "%s", note->text);
}

bool sl_worker_take_note(struct sl_worker *w, struct sl_worker_note *out)
{
    struct sl_worker_thread *t = w->thread;
    pthread_mutex_lock(&t->lock);
    const bool any = t->n_notes > 0;
    if (any) {
        *out = t->notes[0];
        memmove(t->notes, t->notes + 1, --t->n_notes * sizeof *t->notes);
    }
    pthread_mutex_unlock(&t->lock);
    return any;
}

// Under the lock. Takes the message over.
static void keep_message(struct sl_worker_thread *t, Sl__Control__Envelope *m)
{
    struct kept *k = calloc(1, sizeof *k);
    if (!k) { // its asker waits for an answer no longer than its bound
        sl_bus_message_free(m);
        return;
    }
    k->message = m;
    *t->last_kept = k;
    t->last_kept = &k->next;
}

Sl__Control__Envelope *sl_worker_take_message(struct sl_worker *w)
{
    struct sl_worker_thread *t = w->thread;
    pthread_mutex_lock(&t->lock);
    struct kept *k = t->kept;
    Sl__Control__Envelope *m = k ? k->message : NULL;
    if (k && !(t->kept = k->next))
        t->last_kept = &t->kept;
    pthread_mutex_unlock(&t->lock);
    free(k);
    return m;
}

// What the connection of an external trainer says, when something has come by it: only the end.
static void hear_the_end(struct sl_worker *w)
{
    struct sl_worker_thread *t = w->thread;
    char text[SL_ATTACH_TEXT] = "the job's broker is gone";
    pthread_mutex_lock(&t->lock);
    const int rc = sl_attach_read_end(w->broker_fd, text);
    if (rc != SL_EAGAIN && !t->end[0]) { // what was heard first is it: then the connection ends
        snprintf(t->end, sizeof t->end, "%s", text);
        if (rc < 0 && !atomic_load(&w->stop))
            atomic_store(&w->lost, true);
    }
    pthread_mutex_unlock(&t->lock);
    if (rc == SL_EAGAIN)
        return;
    atomic_store(&w->stop, true);
    if (w->arena.base)
        sl_arena_abort(&w->arena, SL_ABORT_STOP);
}

char *sl_worker_end_text(struct sl_worker *w, char *buf, size_t bytes)
{
    pthread_mutex_lock(&w->thread->lock);
    const bool heard = w->thread->end[0];
    pthread_mutex_unlock(&w->thread->lock);
    // The abort word may be seen first: the words are on their way.
    struct pollfd fd = {.fd = w->broker_fd, .events = POLLIN};
    if (!heard && poll(&fd, 1, LEAVE_MS) > 0)
        hear_the_end(w);
    pthread_mutex_lock(&w->thread->lock);
    snprintf(buf, bytes, "%s", w->thread->end[0] ? w->thread->end : "the job ends");
    pthread_mutex_unlock(&w->thread->lock);
    return buf;
}

static void *listen_to_broker(void *arg)
{
    struct sl_worker *w = arg;
    struct sl_worker_thread *t = w->thread;
    struct pollfd fds[3] = {{.fd = t->poke, .events = POLLIN},
                            {.events = POLLIN},
                            {.fd = w->broker_fd, .events = POLLIN}};
    pthread_mutex_lock(&t->lock);
    fds[1].fd = sl_bus_fd(w->bus);
    pthread_mutex_unlock(&t->lock);
    while (!atomic_load(&t->leave)) {
        Sl__Control__Envelope *m;
        pthread_mutex_lock(&t->lock);
        while (sl_bus_receive(w->bus, 0, NULL, &m) == SL_OK) {
            if (m->body_case == SL__CONTROL__ENVELOPE__BODY_STOP) {
                atomic_store(&w->stop, true);
                // Other waits look around ten times a second; a standby trainer's does not.
                sl_event_signal(&w->arena.h->work);
            }
            if (m->body_case == SL__CONTROL__ENVELOPE__BODY_NOTE)
                keep_note(t, m->note);
            if (t->role == SL__CONTROL__ROLE__ROLE_LINK && m->request)
                keep_message(t, m);
            else
                sl_bus_message_free(m);
        }
        pthread_mutex_unlock(&t->lock);
        poll(fds, 3, -1);
        if (fds[2].revents)
            hear_the_end(w);
        if (fds[2].revents & (POLLHUP | POLLNVAL | POLLERR))
            fds[2].fd = -1; // nothing more comes
        uint64_t rung;
        ssize_t ignored = read(t->poke, &rung, sizeof rung);
        (void)ignored;
    }
    return NULL;
}

static int start_listener(struct sl_worker *w)
{
    int err = sl_thread_start(&w->thread->thread, listen_to_broker, w);
    if (err)
        return sl_fail_errno(SL_ESYS, err, "%s: starting a thread", w->name);
    w->thread->running = true;
    return SL_OK;
}

// Whether an external trainer waits in vain.
static int check_wait(struct sl_worker *w)
{
    char why[SL_ATTACH_TEXT];
    if (!w->external)
        return SL_OK; // it dies with the broker, who knows how long this may take
    hear_the_end(w);
    if (w->on_wait)
        SL_TRY(w->on_wait(w->ctx));
    if (atomic_load(&w->stop))
        return sl_fail(SL_EFAILED, "%s", sl_worker_end_text(w, why, sizeof why));
    if (w->until_ns && sl_now_ns() >= w->until_ns)
        return sl_fail(SL_ETIMEDOUT, "%s: the job has not started in time: its samplers still load",
                       w->name);
    return SL_OK;
}

// One message before the job begins. SL_OK: it was Attach; SL_EAGAIN: it was not, or none came in
// that time; SL_EABORTED: Stop.
static int receive_attach(struct sl_worker *w, int timeout_ms)
{
    Sl__Control__Envelope *m;
    int rc = sl_bus_receive(w->bus, timeout_ms, NULL, &m);
    if (rc != SL_OK)
        return rc;
    const int what = (int)m->body_case;
    if (what == SL__CONTROL__ENVELOPE__BODY_NOTE)
        keep_note(w->thread, m->note);
    sl_bus_message_free(m);
    if (what == SL__CONTROL__ENVELOPE__BODY_ATTACH)
        return SL_OK;
    if (what != SL__CONTROL__ENVELOPE__BODY_STOP)
        return SL_EAGAIN;
    atomic_store(&w->stop, true);
    return sl_fail(SL_EABORTED, "%s: stopped before the job began", w->name);
}

// What the job's own bound leaves to all workers together.
static uint64_t memory_left(void *ctx)
{
    const struct sl_worker *w = ctx;
    return atomic_load_explicit(&w->arena.h->memory_left, memory_order_relaxed);
}

int sl_worker_hello(struct sl_worker *w, Sl__Control__Hello *hello)
{
    hello->role = w->thread->role;
    hello->worker = w->id;
    hello->pid = getpid();
    hello->load_ns = sl_now_ns() - w->start_ns;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_HELLO;
    e.hello = hello;
    return sl_worker_send(w, &e);
}

static int map_arena(struct sl_worker *w)
{
    SL_TRY(sl_arena_attach(w->fd.arena, &w->arena));
    SL_TRY(sl_arena_map_acts(&w->arena, w->fd.acts));
    w->arena.doorbell = w->fd.doorbell;
    if (!w->external) // whose memory is its own affair
        sl_memory_set_bound(memory_left, w);
    sl_failpoint_bind(w->arena.h->failpoint);
    if (w->slot == SL_WORKER_NO_SLOT)
        return start_listener(w);
    uint32_t n_slots = 2 * w->arena.h->spec.n_devices;
    if (w->slot >= n_slots)
        return sl_fail(SL_EFORMAT, "%s: slot %u: the arena has %u", w->name, w->slot, n_slots);
    w->stats = sl_stats_slot(&w->arena, w->slot);
    sl_stats_begin(w->stats, w->id);
    return start_listener(w);
}

int sl_worker_poll_attach(struct sl_worker *w)
{
    const int rc = receive_attach(w, 0);
    return rc == SL_OK ? map_arena(w) : rc;
}

int sl_worker_attach(struct sl_worker *w, Sl__Control__Hello *hello)
{
    int rc;
    SL_TRY(sl_worker_hello(w, hello));
    while ((rc = receive_attach(w, LOOK_MS)) == SL_EAGAIN)
        SL_TRY(check_wait(w));
    SL_TRY(rc);
    return map_arena(w);
}

int sl_worker_ready(struct sl_worker *w)
{
    Sl__Control__Ready ready = SL__CONTROL__READY__INIT;
    ready.ready_ns = sl_now_ns() - w->start_ns;
    ready.step_bytes = w->step_bytes;
    ready.t_train_ns = w->t_train_ns;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_READY;
    e.ready = &ready;
    SL_TRY(sl_worker_send(w, &e));
    w->ready = true;
    return SL_OK;
}

void sl_worker_failed(struct sl_worker *w, int code)
{
    if (!w->bus)
        return;
    // The text is copied first: sending may record a message of its own.
    char text[2048];
    snprintf(text, sizeof text, "%s", sl_error_message());
    Sl__Control__Failed failed = SL__CONTROL__FAILED__INIT;
    failed.code = code;
    failed.message = text;
    failed.worker = w->id;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_FAILED;
    e.failed = &failed;
    if (sl_worker_send(w, &e) < 0 && !w->external)
        sl_log_error("%s", text); // the log is what is left
}

void sl_worker_fini(struct sl_worker *w)
{
    struct sl_worker_thread *t = w->thread;
    if (t && t->running) {
        atomic_store(&t->leave, true);
        poke(t);
        pthread_join(t->thread, NULL);
    }
    sl_bus_close(w->bus, LEAVE_MS);
    if (!w->external)
        sl_memory_set_bound(NULL, NULL);
    if (w->stats)
        sl_stats_end(w->stats);
    sl_failpoint_bind(early_reaches);
    sl_arena_detach(&w->arena);
    if (w->external && w->broker_fd >= 0) {
        sl_attach_say_leave(w->broker_fd); // nothing of the job's is touched from here on
        close(w->broker_fd);
        sl_attach_close_fds(&w->fd);
    }
    if (t) {
        for (Sl__Control__Envelope *m; (m = sl_worker_take_message(w)) != NULL;)
            sl_bus_message_free(m);
        if (t->poke >= 0)
            close(t->poke);
        pthread_mutex_destroy(&t->lock);
        free(t);
    }
    sl_assignment_fini(&w->told);
    memset(w, 0, sizeof *w);
}

/*
 * What is no fault of this process ends the job, which the broker says in a moment: until then the
 * worker stays, so that nobody takes it for a dead one and starts another. Bounded: then it leaves.
 */
static bool wait_for_the_end(struct sl_worker *w)
{
    const uint64_t until = sl_now_ns() + END_MS * 1000000ull;
    while (!atomic_load(&w->stop) && sl_now_ns() < until) {
        const uint32_t seen = sl_event_read(&w->arena.h->progress);
        if (!atomic_load(&w->stop))
            sl_event_wait(&w->arena.h->progress, seen, SL_ARENA_WAIT_MS);
    }
    return atomic_load(&w->stop);
}

int sl_worker_main(struct sl_worker *w, const char *role, int argc, char **argv,
                   int (*work)(void *ctx), void (*release)(void *ctx), void *ctx)
{
    sl_log_init(role);
    int rc = sl_worker_init(w, role, argc, argv);
    // The broker may not be within reach yet: then the log is.
    if (rc < 0)
        sl_log_error("%s", sl_error_message());
    else if (rc == SL_OK)
        rc = work(ctx);
    bool failed = rc < 0 && rc != SL_EABORTED;
    if (failed && rc == SL_EDEVICE && w->ready)
        sl_log_error("%s", sl_error_message());
    else if (failed)
        sl_worker_failed(w, rc);
    if (rc == SL_ENOTFINITE && w->ready)
        failed = !wait_for_the_end(w);
    release(ctx);
    sl_worker_fini(w);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
