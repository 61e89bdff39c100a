/*
 * fake_collective.h - struct sl_collective over shared memory, for threads and forked processes of
 * a test, on host memory.
 *
 * Nothing in it notices that a member is gone: a sum with a dead one never ends, until abort(). It
 * adds in the order of the ranks, so every member has the same bits.
 */
#ifndef SL_TESTS_UNIT_FAKE_COLLECTIVE_H
#define SL_TESTS_UNIT_FAKE_COLLECTIVE_H

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/error.h"
#include "common/device/plugin.h"
#include "tests/unit/asserts.h"

enum { FAKE_GROUPS = 256, FAKE_MEMBERS = 4, FAKE_FLOATS = 2048 };

struct fake_group {
    _Atomic uint32_t met; // bit r: rank r has come
    _Atomic uint32_t posted[FAKE_MEMBERS];
    float part[2][FAKE_MEMBERS][FAKE_FLOATS]; // of this sum and of the last one
};

struct fake_world {
    _Atomic uint32_t n_groups;
    _Atomic uint32_t n_sums, n_aborts;
    _Atomic uint32_t fails; // polls from now on that fail
    struct fake_group group[FAKE_GROUPS];
};

// One member: a process, or a thread that stands for one.
struct fake_member {
    struct fake_group *group; // NULL = in none
    uint32_t rank, n, round;
    float *out; // of the sum under way; NULL = none
    uint64_t count;
};

static struct fake_world *fake_world;
static _Thread_local struct fake_member fake_me;

static inline int fake_unique_id(uint8_t id[SL_COLLECTIVE_ID_BYTES])
{
    uint32_t number = atomic_fetch_add(&fake_world->n_groups, 1);
    ck_assert_uint_lt(number, FAKE_GROUPS);
    memset(id, 0xa5, SL_COLLECTIVE_ID_BYTES);
    memcpy(id + SL_COLLECTIVE_ID_BYTES - sizeof number, &number, sizeof number);
    return SL_OK;
}

static inline int fake_begin(const uint8_t id[SL_COLLECTIVE_ID_BYTES], uint32_t rank, uint32_t n)
{
    uint32_t number;
    memcpy(&number, id + SL_COLLECTIVE_ID_BYTES - sizeof number, sizeof number);
    ck_assert_ptr_null(fake_me.group);
    ck_assert(number < FAKE_GROUPS && rank < n && n <= FAKE_MEMBERS);
    fake_me = (struct fake_member){.group = &fake_world->group[number], .rank = rank, .n = n};
    uint32_t before = atomic_fetch_or(&fake_me.group->met, 1u << rank);
    ck_assert_msg(!(before & 1u << rank), "two members of rank %u", rank);
    return SL_OK;
}

static inline int fake_all_reduce(const float *in, float *out, uint64_t n)
{
    struct fake_member *m = &fake_me;
    ck_assert(m->group && !m->out && n <= FAKE_FLOATS && in != out);
    ck_assert_uint_eq(atomic_load(&m->group->met), (1u << m->n) - 1);
    memcpy(m->group->part[m->round % 2][m->rank], in, n * sizeof *in);
    m->out = out;
    m->count = n;
    atomic_store(&m->group->posted[m->rank], ++m->round);
    return SL_OK;
}

static inline int fake_poll(void)
{
    struct fake_member *m = &fake_me;
    ck_assert_ptr_nonnull(m->group);
    uint32_t fails = atomic_load(&fake_world->fails);
    if (fails > 0 && atomic_compare_exchange_strong(&fake_world->fails, &fails, fails - 1))
        return sl_fail(SL_EDEVICE, "fake: a peer is said to be gone");
    if (atomic_load(&m->group->met) != (1u << m->n) - 1)
        return SL_EAGAIN;
    if (!m->out)
        return SL_OK;
    for (uint32_t r = 0; r < m->n; r++)
        if (atomic_load(&m->group->posted[r]) < m->round)
            return SL_EAGAIN;
    for (uint64_t i = 0; i < m->count; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < m->n; r++)
            sum += m->group->part[(m->round - 1) % 2][r][i];
        m->out[i] = sum;
    }
    m->out = NULL;
    if (m->rank == 0)
        atomic_fetch_add(&fake_world->n_sums, 1);
    return SL_OK;
}

static inline void fake_abort(void)
{
    if (fake_me.group)
        atomic_fetch_add(&fake_world->n_aborts, 1);
    fake_me = (struct fake_member){0};
}

static const struct sl_collective fake_collective = {
    .bytes = sizeof fake_collective,
    .unique_id = fake_unique_id,
    .begin = fake_begin,
    .all_reduce = fake_all_reduce,
    .poll = fake_poll,
    .abort = fake_abort,
};

static inline void fake_start(void)
{
    fake_world =
        mmap(NULL, sizeof *fake_world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(fake_world, MAP_FAILED);
}

static inline void fake_end(void)
{
    munmap(fake_world, sizeof *fake_world);
}

#endif
