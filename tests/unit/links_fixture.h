// Links of several nodes over a fake world, one after the other in one thread: be() says whose turn
// it is.
#ifndef SL_TESTS_UNIT_LINKS_FIXTURE_H
#define SL_TESTS_UNIT_LINKS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "link/node_link.h"
#include "tests/unit/asserts.h"
#include "tests/unit/nodes_fake_world.h"

static struct sl_node_link links[FAKE_NODES_MAX];

static inline void well(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static inline struct sl_node_link *be(uint32_t rank)
{
    fake_rank = rank;
    return &links[rank];
}

// Hosts are a, b, ...
static inline void links_meet(uint32_t n)
{
    fake.size = n;
    for (uint32_t i = 0; i < n; i++) {
        links[i] = (struct sl_node_link){
            .world = {.table = &FAKE_TABLE, .rank = i, .size = n, .doing = "the job over nodes"},
            .clock_ahead_ns = calloc(n, sizeof(int64_t))};
        links[i].world.member = calloc(n, sizeof *links[i].world.member);
        for (uint32_t k = 0; k < n; k++)
            snprintf(links[i].world.member[k].host, SL_WORLD_HOST_BYTES, "%c", 'a' + k);
    }
}

// Each with an arena of this kind.
static inline void links_open(uint32_t n, const struct sl_arena_spec *spec)
{
    links_meet(n);
    for (uint32_t i = 0; i < n; i++) {
        struct sl_arena_spec own = *spec;
        const int fd = sl_arena_memfd();
        well(fd < 0 ? fd : SL_OK);
        own.nodes.n = n;
        own.nodes.rank = i;
        well(sl_arena_create(fd, &own, &links[i].worker.arena));
    }
}

// Sends of a node that are under way until all are let go, and the beginning of the last one.
static struct {
    uint32_t sent;
    const void *bytes;
    size_t n;
    _Alignas(8) char was[256];
    bool over;
} slow;

static inline int send_slowly(uint32_t to, enum sl_world_tag tag, const void *bytes, size_t n,
                              struct sl_world_request *out)
{
    slow.sent++;
    slow.bytes = bytes;
    slow.n = n < sizeof slow.was ? n : sizeof slow.was;
    memcpy(slow.was, bytes, slow.n);
    well(fake_send(to, tag, bytes, n, out));
    out->word[1] = 1;
    return SL_OK;
}

static inline int receive_at_once(uint32_t from, enum sl_world_tag tag, void *bytes, size_t n,
                                  struct sl_world_request *out)
{
    out->word[1] = 0;
    return fake_receive(from, tag, bytes, n, out);
}

static inline int test_slowly(struct sl_world_request *request)
{
    return request->word[1] && !slow.over ? SL_EAGAIN : fake_test(request);
}

static inline void links_send_slowly(uint32_t rank)
{
    static struct sl_world_table table;
    table = FAKE_TABLE;
    table.send = send_slowly;
    table.receive = receive_at_once;
    table.test = test_slowly;
    links[rank].world.table = &table;
}

// What is under way is nobody's.
static inline void links_close(void)
{
    for (uint32_t i = 0; i < fake.size; i++) {
        const int fd = links[i].worker.arena.fd;
        if (links[i].worker.arena.base) {
            sl_arena_detach(&links[i].worker.arena);
            close(fd);
        }
        free(links[i].world.member);
        free(links[i].clock_ahead_ns);
    }
    for (struct fake_message *m = fake.first, *next; m; m = next) {
        next = m->next;
        free(m->bytes);
        free(m);
    }
    fake.first = NULL;
}

#endif
