#include "nodes/world.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/base/threads.h"
#include "common/base/version.h"

enum {
    PROTOCOL = 1, // of all that is sent between nodes
    SLEEP_MIN_US = 10,
    SLEEP_MAX_US = 1000,
    WATCH_US = 100000,
    PER_SECOND = 1000000 / WATCH_US,
    SAID_OF_START = 15, // who waits for MPI to start says so after that part of the time
    ABORT_S = 5,        // MPI_Abort may take so long
};

// Between two looks at the pulses; and what a process that stood still does not count.
static const uint64_t look_ns = 50000000, stood_still_ns = SL_WORLD_SECOND;

struct sl_world_name sl_world_name(const struct sl_world *w, uint32_t rank)
{
    struct sl_world_name out;
    const char *host = w->member ? w->member[rank].host : "";
    if (*host)
        snprintf(out.text, sizeof out.text, "host %s (rank %u)", host, rank);
    else
        snprintf(out.text, sizeof out.text, "rank %u (its host is not known yet)", rank);
    return out;
}

// --- the second thread ---------------------------------------------------------------------------

// MPI does not say who has not come to it. Each that has says so itself, before the first one gives
// up: then the launcher ends all.
static void say_that_it_has_come(const struct sl_world *w, uint32_t waited)
{
    if (waited == w->start_s * PER_SECOND / SAID_OF_START)
        sl_log_warn("%s has come, and MPI waits for other nodes: those that have come say this: "
                    "look at one that does not",
                    w->self);
}

// Counts its own sleeps and not the clock: when the whole process stood still it did so, too.
static void *watch(void *ctx)
{
    struct sl_world *w = ctx;
    uint32_t seen = 0;
    for (uint32_t still = 0; !atomic_load(&w->closed); still++) {
        const uint32_t looks = atomic_load(&w->looks);
        const uint32_t bound_s = atomic_load(&w->started) ? w->stuck_s : w->start_s;
        if (looks != seen)
            still = 0;
        seen = looks;
        if (!atomic_load(&w->started))
            say_that_it_has_come(w, still);
        if (still >= bound_s * PER_SECOND) {
            char sentence[512];
            snprintf(sentence, sizeof sentence,
                     "%s: a call of MPI did not return for %u s on %s: look whether all nodes are "
                     "up and reach one another, and start again",
                     __atomic_load_n(&w->doing, __ATOMIC_RELAXED), bound_s, w->self);
            w->give_up(sentence);
        }
        usleep(WATCH_US);
    }
    return NULL;
}

static int start_watch(struct sl_world *w)
{
    if (sl_thread_start(&w->watch, watch, w) != 0)
        return sl_fail(SL_ESYS, "no thread to watch over MPI");
    w->watched = true;
    return SL_OK;
}

static void stop_watch(struct sl_world *w)
{
    atomic_store(&w->closed, true);
    if (w->watched)
        pthread_join(w->watch, NULL);
    w->watched = false;
}

// --- pulses --------------------------------------------------------------------------------------

// Those whose silence this rank counts: a star around rank 0.
static bool is_heard(const struct sl_world *w, uint32_t rank)
{
    return rank != w->rank && (w->rank == 0 || rank == 0);
}

static int take_pulses(struct sl_world *w, uint64_t now)
{
    uint32_t from;
    size_t n;
    int rc;
    while ((rc = w->table->probe(SL_WORLD_TAG_PULSE, &from, &n)) == SL_OK) {
        struct sl_world_request request;
        unsigned char pulse;
        SL_TRY(w->table->receive(from, SL_WORLD_TAG_PULSE, &pulse, sizeof pulse, &request));
        // It is there already: probe() has said so.
        do
            rc = w->table->test(&request);
        while (rc == SL_EAGAIN);
        if (rc < 0)
            return rc;
        w->member[from].heard_ns = now;
        w->member[from].taken++;
    }
    return rc == SL_EAGAIN ? SL_OK : rc;
}

static int give_pulses(struct sl_world *w, uint64_t now)
{
    static const unsigned char pulse = 1;
    if (w->leaving || now - w->pulsed_ns < SL_WORLD_PULSE_S * SL_WORLD_SECOND)
        return SL_OK;
    w->pulsed_ns = now;
    for (uint32_t i = 0; i < w->size; i++) {
        struct sl_world_member *m = &w->member[i];
        if (!is_heard(w, i))
            continue;
        // One who takes none gets no more.
        if (m->pulsing) {
            int rc = w->table->test(&m->pulse);
            if (rc == SL_EAGAIN)
                continue;
            m->pulsing = false;
            if (rc < 0)
                return sl_fail_prefix(rc, "%s", sl_world_name(w, i).text);
        }
        int rc = w->table->send(i, SL_WORLD_TAG_PULSE, &pulse, sizeof pulse, &m->pulse);
        if (rc < 0)
            return sl_fail_prefix(rc, "%s", sl_world_name(w, i).text);
        m->pulsing = true;
        m->given++;
    }
    return SL_OK;
}

// Who leaves gives no more pulses: then only the silence of `peer` counts, whose word is awaited.
static int check_silence(const struct sl_world *w, uint32_t peer, uint64_t now)
{
    for (uint32_t i = 0; i < w->size; i++)
        if (is_heard(w, i) && (!w->leaving || i == peer) && now > w->member[i].heard_ns &&
            now - w->member[i].heard_ns >= SL_WORLD_SILENCE_S * SL_WORLD_SECOND)
            return sl_fail(SL_ETIMEDOUT,
                           "%s: %s was not heard of for %d s: it is down, frozen or cut off: look "
                           "at that node and its network, and start again",
                           w->doing, sl_world_name(w, i).text, SL_WORLD_SILENCE_S);
    return SL_OK;
}

// What every wait does between two looks at its own message. `peer` is waited for.
static int look(struct sl_world *w, uint32_t peer)
{
    const uint64_t now = sl_now_ns();
    atomic_fetch_add(&w->looks, 1);
    if (now - w->looked_ns < look_ns)
        return SL_OK;
    if (now - w->looked_ns > stood_still_ns)
        for (uint32_t i = 0; i < w->size; i++)
            w->member[i].heard_ns += now - w->looked_ns;
    w->looked_ns = now;
    if (sl_interrupt_seen())
        return sl_fail(SL_EABORTED,
                       "%s: told to end by a signal while it waited for %s: what started the job "
                       "says why",
                       w->doing, sl_world_name(w, peer).text);
    SL_TRY(take_pulses(w, now));
    SL_TRY(give_pulses(w, now));
    return check_silence(w, peer, now);
}

int sl_world_look(struct sl_world *w)
{
    return look(w, w->rank ? 0 : w->size - 1);
}

// --- waiting -------------------------------------------------------------------------------------

static int wait_for(struct sl_world *w, struct sl_world_request *request, uint32_t peer,
                    uint32_t bound_s)
{
    const uint64_t begin = sl_now_ns();
    unsigned sleep_us = SLEEP_MIN_US;
    for (;;) {
        int rc = w->table->test(request);
        if (rc == SL_OK)
            return SL_OK;
        if (rc != SL_EAGAIN)
            return sl_fail_prefix(rc, "%s: %s", w->doing, sl_world_name(w, peer).text);
        SL_TRY(look(w, peer));
        const uint64_t waited = sl_now_ns() - begin;
        if (waited >= bound_s * SL_WORLD_SECOND)
            return sl_fail(SL_ETIMEDOUT,
                           "%s: %s and %s do not reach each other, or one is too slow: no message "
                           "for %u s: look at the network between them, and start again",
                           w->doing, sl_world_name(w, w->rank).text, sl_world_name(w, peer).text,
                           bound_s);
        if (waited < w->spin_ns)
            continue;
        usleep(sleep_us);
        sleep_us = SL_MIN(2 * sleep_us, (unsigned)SLEEP_MAX_US);
    }
}

// Piece by piece: out of `from`, or, where that is NULL, into `into`.
static int move(struct sl_world *w, uint32_t peer, const char *from, char *into, size_t n,
                uint32_t bound_s)
{
    struct sl_world_request request;
    for (size_t done = 0; done < n;) {
        const size_t piece = SL_MIN(n - done, (size_t)SL_WORLD_CHUNK_BYTES);
        int rc = from ? w->table->send(peer, SL_WORLD_TAG_DATA, from + done, piece, &request)
                      : w->table->receive(peer, SL_WORLD_TAG_DATA, into + done, piece, &request);
        if (rc < 0)
            return sl_fail_prefix(rc, "%s: %s", w->doing, sl_world_name(w, peer).text);
        SL_TRY(wait_for(w, &request, peer, bound_s));
        done += piece;
    }
    return SL_OK;
}

int sl_world_put(struct sl_world *w, uint32_t to, const void *bytes, size_t n, uint32_t bound_s)
{
    return move(w, to, bytes, NULL, n, bound_s);
}

int sl_world_get(struct sl_world *w, uint32_t from, void *bytes, size_t n, uint32_t bound_s)
{
    return move(w, from, NULL, bytes, n, bound_s);
}

int sl_world_say(struct sl_world *w, uint32_t to, const char *text)
{
    const uint64_t n = strlen(text);
    SL_TRY(sl_world_put(w, to, &n, sizeof n, SL_WORLD_ANSWER_S));
    return sl_world_put(w, to, text, n, SL_WORLD_ANSWER_S);
}

int sl_world_hear(struct sl_world *w, uint32_t from, char **text)
{
    uint64_t n;
    *text = NULL;
    SL_TRY(sl_world_get(w, from, &n, sizeof n, SL_WORLD_ANSWER_S));
    if (n >= SL_WORLD_TEXT_BYTES)
        return sl_fail(SL_EPROTO, "%s: %s sends %llu bytes of text: wanted fewer than %d", w->doing,
                       sl_world_name(w, from).text, (unsigned long long)n, SL_WORLD_TEXT_BYTES);
    char *buffer = calloc(1, n + 1);
    if (!buffer)
        return sl_fail(SL_ENOMEM, "%s: no memory", w->doing);
    int rc = sl_world_get(w, from, buffer, n, SL_WORLD_ANSWER_S);
    if (rc < 0)
        free(buffer);
    else
        *text = buffer;
    return rc;
}

// --- work beside the pulses ----------------------------------------------------------------------

struct beside {
    int (*work)(void *ctx);
    void *ctx;
    int rc;
    char message[1024];
    _Atomic bool over;
};

static void *work_beside(void *ctx)
{
    struct beside *b = ctx;
    b->rc = b->work(b->ctx);
    if (b->rc < 0)
        snprintf(b->message, sizeof b->message, "%s", sl_error_message());
    atomic_store(&b->over, true);
    return NULL;
}

int sl_world_during(struct sl_world *w, int (*work)(void *ctx), void *ctx)
{
    // The thread may outlive a failure here, which ends the process; then what it uses must stay.
    struct beside *b = calloc(1, sizeof *b);
    pthread_t thread;
    if (!b)
        return sl_fail(SL_ENOMEM, "%s: no memory", w->doing);
    *b = (struct beside){.work = work, .ctx = ctx};
    if (sl_thread_start(&thread, work_beside, b) != 0) {
        free(b);
        return sl_fail(SL_ESYS, "%s: no thread", w->doing);
    }
    int rc = SL_OK;
    while (!atomic_load(&b->over) && (rc = sl_world_look(w)) == SL_OK)
        usleep(SLEEP_MAX_US);
    if (rc < 0) {
        pthread_detach(thread);
        return rc;
    }
    pthread_join(thread, NULL);
    rc = b->rc < 0 ? sl_fail(b->rc, "%s", b->message) : b->rc;
    free(b);
    return rc;
}

// --- beginning and end ---------------------------------------------------------------------------

// The first message of each to rank 0. Its form stays the same in all versions.
struct hello {
    uint32_t protocol;
    char version[28], host[SL_WORLD_HOST_BYTES];
};

static int check_hello(const struct sl_world *w, uint32_t rank, struct hello *h)
{
    h->version[sizeof h->version - 1] = h->host[sizeof h->host - 1] = '\0';
    if (h->protocol == PROTOCOL)
        return SL_OK;
    return sl_fail(SL_EPROTO,
                   "host %s (rank %u) runs sluice %s, which speaks protocol %u, host %s sluice %s "
                   "and protocol %d: install one version on all nodes",
                   h->host, rank, h->version, h->protocol, w->member[w->rank].host, SL_VERSION,
                   PROTOCOL);
}

static int meet_as_first(struct sl_world *w)
{
    for (uint32_t i = 1; i < w->size; i++) {
        struct hello h;
        SL_TRY(sl_world_get(w, i, &h, sizeof h, SL_WORLD_STUCK_S));
        SL_TRY(check_hello(w, i, &h));
        snprintf(w->member[i].host, SL_WORLD_HOST_BYTES, "%s", h.host);
    }
    for (uint32_t to = 1; to < w->size; to++)
        for (uint32_t i = 0; i < w->size; i++)
            SL_TRY(sl_world_put(w, to, w->member[i].host, SL_WORLD_HOST_BYTES, SL_WORLD_STUCK_S));
    return SL_OK;
}

static int meet_first(struct sl_world *w)
{
    struct hello h = {.protocol = PROTOCOL, .version = SL_VERSION};
    memcpy(h.host, w->member[w->rank].host, sizeof h.host);
    SL_TRY(sl_world_put(w, 0, &h, sizeof h, SL_WORLD_STUCK_S));
    for (uint32_t i = 0; i < w->size; i++)
        SL_TRY(sl_world_get(w, 0, w->member[i].host, SL_WORLD_HOST_BYTES, SL_WORLD_STUCK_S));
    return SL_OK;
}

int sl_world_open(struct sl_world *w, const struct sl_world_spec *spec)
{
    *w = (struct sl_world){
        .table = spec->table,
        .give_up = spec->give_up,
        .stuck_s = spec->stuck_s ? spec->stuck_s : SL_WORLD_STUCK_S,
        .start_s = spec->start_s ? spec->start_s : SL_WORLD_START_S,
        .doing = "meeting the other nodes",
    };
    snprintf(w->self, sizeof w->self, "host %s (rank %u)", spec->host, spec->launcher.rank);
    SL_TRY(sl_launcher_check_pmi(&spec->launcher));
    SL_FAILPOINT(NODES_START);
    SL_TRY(start_watch(w));
    int rc = w->table->open(&w->rank, &w->size);
    atomic_store(&w->started, true);
    atomic_fetch_add(&w->looks, 1);
    SL_TRY(rc);
    rc = sl_launcher_check(&spec->launcher, w->size, w->rank, w->table->name());
    if (rc < 0) {
        char message[1024];
        snprintf(message, sizeof message, "%s", sl_error_message());
        w->table->close();
        return sl_fail(rc, "%s", message);
    }
    w->is_open = true;
    w->member = calloc(w->size, sizeof *w->member);
    if (!w->member)
        return sl_fail(SL_ENOMEM, "%u nodes: no memory", w->size);
    snprintf(w->member[w->rank].host, SL_WORLD_HOST_BYTES, "%s", spec->host);
    w->looked_ns = sl_now_ns();
    for (uint32_t i = 0; i < w->size; i++)
        w->member[i].heard_ns = w->looked_ns;
    SL_TRY(w->rank == 0 ? meet_as_first(w) : meet_first(w));
    SL_FAILPOINT(NODES_MET);
    return SL_OK;
}

// Takes all pulses that rank `from` says that it has given, and waits for the own ones to it.
static int drain(struct sl_world *w, uint32_t from)
{
    struct sl_world_member *m = &w->member[from];
    const uint64_t begin = sl_now_ns();
    uint64_t given;
    SL_TRY(sl_world_get(w, from, &given, sizeof given, SL_WORLD_STUCK_S));
    while (m->taken < given && sl_now_ns() - begin < SL_WORLD_STUCK_S * SL_WORLD_SECOND) {
        SL_TRY(look(w, from));
        usleep(SLEEP_MAX_US);
    }
    if (m->taken < given)
        return sl_fail(SL_ETIMEDOUT, "%s: pulses of %s are lost", w->doing,
                       sl_world_name(w, from).text);
    if (m->pulsing)
        SL_TRY(wait_for(w, &m->pulse, from, SL_WORLD_STUCK_S));
    m->pulsing = false;
    return SL_OK;
}

static int tell_given(struct sl_world *w, uint32_t to)
{
    return sl_world_put(w, to, &w->member[to].given, sizeof w->member[to].given, SL_WORLD_STUCK_S);
}

/*
 * Nothing may be under way when MPI is ended: MPICH waits for ever for a message that nobody takes.
 * So all meet once more, and then each pair of first node and other tells how many pulses it has
 * given, and takes that many.
 */
int sl_world_close(struct sl_world *w)
{
    unsigned char word = 0;
    SL_FAILPOINT(NODES_CLOSING);
    w->doing = "leaving the other nodes";
    if (w->rank != 0) {
        SL_TRY(sl_world_put(w, 0, &word, sizeof word, SL_WORLD_STUCK_S));
        SL_TRY(sl_world_get(w, 0, &word, sizeof word, SL_WORLD_STUCK_S));
    }
    for (uint32_t i = 1; w->rank == 0 && i < w->size; i++)
        SL_TRY(sl_world_get(w, i, &word, sizeof word, SL_WORLD_STUCK_S));
    w->leaving = w->rank == 0;
    for (uint32_t i = 1; w->rank == 0 && i < w->size; i++) {
        SL_TRY(sl_world_put(w, i, &word, sizeof word, SL_WORLD_STUCK_S));
        SL_TRY(tell_given(w, i));
    }
    w->leaving = true;
    for (uint32_t i = w->rank == 0; i < (w->rank == 0 ? w->size : 1); i++) {
        if (w->rank != 0)
            SL_TRY(tell_given(w, 0));
        SL_TRY(drain(w, i));
    }
    w->is_open = false;
    return w->table->close();
}

void sl_world_abort(struct sl_world *w, int status)
{
    if (!w->is_open)
        return;
    // Where MPI does not come back from it either.
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_S);
    w->table->abort(status);
    alarm(0);
}

void sl_world_fini(struct sl_world *w)
{
    stop_watch(w);
    free(w->member);
    w->member = NULL;
}
