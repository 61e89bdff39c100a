/*
 * nodes_fake_world.h - struct sl_world_table over queues in memory: a thread of a test is a node.
 *
 * A send is over at once. A thread that stops looking is a node that froze; a cable is cut by
 * dropping what goes over it.
 */
#ifndef SL_TESTS_UNIT_NODES_FAKE_WORLD_H
#define SL_TESTS_UNIT_NODES_FAKE_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "nodes/world.h"
#include "tests/unit/await.h"

enum { FAKE_NODES_MAX = 4, FAKE_COPIED_MAX = 128 << 20 };

struct fake_message {
    uint32_t from, to, tag;
    size_t n;
    char *bytes; // NULL: too large to be copied, only counted
    struct fake_message *next;
};

struct fake_receive {
    uint32_t from, tag;
    size_t n;
    void *bytes;
    struct fake_receive *next;
};

static struct {
    pthread_mutex_t lock;
    struct fake_message *first;
    struct fake_receive *receives; // all there were: some are never over
    uint32_t size;
    bool cut[FAKE_NODES_MAX][FAKE_NODES_MAX];
    _Atomic uint32_t looks[FAKE_NODES_MAX]; // for pulses, by node
    _Atomic uint32_t opens, closes, aborts;
    _Atomic bool blocks; // open() does not return
    size_t largest;      // message
    uint32_t messages;   // of data
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint32_t fake_rank;

static inline const char *fake_name(void)
{
    return "a fake MPI";
}

static inline int fake_open(uint32_t *rank, uint32_t *size)
{
    atomic_fetch_add(&fake.opens, 1);
    AWAIT(!atomic_load(&fake.blocks));
    *rank = fake_rank;
    *size = fake.size;
    return SL_OK;
}

static inline int fake_send(uint32_t to, enum sl_world_tag tag, const void *bytes, size_t n,
                            struct sl_world_request *out)
{
    struct fake_message *m = calloc(1, sizeof *m), **end;
    *m = (struct fake_message){.from = fake_rank, .to = to, .tag = tag, .n = n};
    if (n <= FAKE_COPIED_MAX) {
        m->bytes = malloc(n + 1);
        memcpy(m->bytes, bytes, n);
    }
    pthread_mutex_lock(&fake.lock);
    fake.largest = SL_MAX(fake.largest, n);
    fake.messages += tag == SL_WORLD_TAG_DATA;
    for (end = &fake.first; *end; end = &(*end)->next)
        ;
    if (fake.cut[fake_rank][to]) {
        free(m->bytes);
        free(m);
    } else {
        *end = m;
    }
    pthread_mutex_unlock(&fake.lock);
    out->word[0] = 0; // over
    return SL_OK;
}

static inline int fake_receive(uint32_t from, enum sl_world_tag tag, void *bytes, size_t n,
                               struct sl_world_request *out)
{
    struct fake_receive *r = malloc(sizeof *r);
    pthread_mutex_lock(&fake.lock);
    *r = (struct fake_receive){from, tag, n, bytes, fake.receives};
    fake.receives = r;
    pthread_mutex_unlock(&fake.lock);
    out->word[0] = (uintptr_t)r;
    return SL_OK;
}

// Under the lock: the place of the first message from a node, or from any.
static inline struct fake_message **fake_find(uint32_t from, uint32_t tag)
{
    for (struct fake_message **m = &fake.first; *m; m = &(*m)->next)
        if ((*m)->to == fake_rank && (*m)->tag == tag && (from == UINT32_MAX || (*m)->from == from))
            return m;
    return NULL;
}

static inline int fake_test(struct sl_world_request *request)
{
    struct fake_receive *r = (struct fake_receive *)(uintptr_t)request->word[0];
    if (!r)
        return SL_OK;
    pthread_mutex_lock(&fake.lock);
    struct fake_message **place = fake_find(r->from, r->tag), *m = place ? *place : NULL;
    if (m)
        *place = m->next;
    pthread_mutex_unlock(&fake.lock);
    if (!m)
        return SL_EAGAIN;
    int rc = m->n == r->n ? SL_OK : sl_fail(SL_EPROTO, "%zu bytes: wanted %zu", m->n, r->n);
    if (rc == SL_OK && m->bytes)
        memcpy(r->bytes, m->bytes, m->n);
    free(m->bytes);
    free(m);
    request->word[0] = 0;
    return rc;
}

static inline int fake_cancel(struct sl_world_request *request)
{
    request->word[0] = 0; // over
    return SL_OK;
}

static inline int fake_probe(enum sl_world_tag tag, uint32_t *from, size_t *n)
{
    if (tag == SL_WORLD_TAG_PULSE)
        atomic_fetch_add(&fake.looks[fake_rank], 1);
    pthread_mutex_lock(&fake.lock);
    struct fake_message **place = fake_find(UINT32_MAX, tag);
    if (place) {
        *from = (*place)->from;
        *n = (*place)->n;
    }
    pthread_mutex_unlock(&fake.lock);
    return place ? SL_OK : SL_EAGAIN;
}

static inline void fake_abort(int status)
{
    atomic_fetch_add(&fake.aborts, 1);
}

static inline int fake_close(void)
{
    atomic_fetch_add(&fake.closes, 1);
    return SL_OK;
}

static const struct sl_world_table FAKE_TABLE = {
    .abi = SL_WORLD_ABI,
    .bytes = sizeof(struct sl_world_table),
    .version = "",
    .name = fake_name,
    .open = fake_open,
    .send = fake_send,
    .receive = fake_receive,
    .test = fake_test,
    .cancel = fake_cancel,
    .probe = fake_probe,
    .abort = fake_abort,
    .close = fake_close,
};

// One node: a thread, what it does between opening and closing its world, and what came of it.
struct fake_node {
    pthread_t thread;
    uint32_t rank;
    const char *host;
    int (*body)(struct sl_world *w, struct fake_node *node);
    uint32_t problems;
    int rc;
    char message[1024];
    _Atomic bool met, over;
};

static inline void fake_give_up(const char *sentence)
{
    ck_abort_msg("%s", sentence);
}

static inline void *fake_node_run(void *ctx)
{
    struct fake_node *node = ctx;
    struct sl_world w;
    fake_rank = node->rank;
    const struct sl_world_spec spec = {.table = &FAKE_TABLE,
                                       .host = node->host,
                                       .launcher = {.variable = "PMI_SIZE", .size = fake.size},
                                       .give_up = fake_give_up};
    node->rc = sl_world_open(&w, &spec);
    atomic_store(&node->met, true);
    if (node->rc == SL_OK)
        node->rc = node->body(&w, node);
    if (node->rc == SL_OK)
        node->rc = sl_world_close(&w);
    if (node->rc < 0)
        snprintf(node->message, sizeof node->message, "%s", sl_error_message());
    sl_world_fini(&w);
    atomic_store(&node->over, true);
    return NULL;
}

// Returns once they have met: a test that lets time pass lets none pass while hosts are not known.
// Hosts are a, b, ... where the test has not named them.
static inline void fake_nodes_start(struct fake_node *nodes, uint32_t n,
                                    int (*body)(struct sl_world *w, struct fake_node *node))
{
    static const char *const hosts[] = {"a", "b", "c", "d"};
    fake.size = n;
    for (uint32_t i = 0; i < n; i++) {
        nodes[i].rank = i;
        nodes[i].host = nodes[i].host ? nodes[i].host : hosts[i];
        nodes[i].body = body;
        ck_assert_int_eq(pthread_create(&nodes[i].thread, NULL, fake_node_run, &nodes[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        AWAIT(atomic_load(&nodes[i].met));
}

// Time goes on for nodes until all but those of `frozen` (bits) are over, step by step: after each
// every node that lives has looked for pulses. So no node misses what happened in a step.
static inline void fake_nodes_advance(struct fake_node *nodes, uint32_t n, uint32_t frozen)
{
    for (;;) {
        uint32_t before[FAKE_NODES_MAX], live = 0;
        for (uint32_t i = 0; i < n; i++) {
            before[i] = atomic_load(&fake.looks[i]);
            live += !(frozen >> i & 1) && !atomic_load(&nodes[i].over);
        }
        if (live == 0)
            return;
        sl_clock_advance(SL_WORLD_SECOND / 2);
        for (uint32_t i = 0; i < n; i++)
            AWAIT(frozen >> i & 1 || atomic_load(&nodes[i].over) ||
                  atomic_load(&fake.looks[i]) != before[i]);
    }
}

static inline void fake_nodes_join(struct fake_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        pthread_join(nodes[i].thread, NULL);
}

static inline void assert_part(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "wanted '%s' in '%s'", part, text);
}

#endif
