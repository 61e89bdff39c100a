// What of a batch crosses the bus to a GPU, and what is left to the processor.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_scene.h"

#include "common/base/bits.h"

// Of copies through a device of the test's own: bytes that went to device memory, and that came.
static struct {
    const struct sl_device *device;
    struct {
        const char *p;
        size_t n;
    } pieces[64]; // of device memory
    uint64_t up, down;
} bus;

static void *counted_alloc(size_t n)
{
    char *p = bus.device->memory.alloc(n);
    size_t i = 0;
    while (bus.pieces[i].p)
        i++;
    bus.pieces[i].p = p;
    bus.pieces[i].n = n;
    return p;
}

static void counted_free(void *p, size_t n)
{
    for (size_t i = 0; i < SL_COUNT_OF(bus.pieces); i++)
        if (bus.pieces[i].p == p)
            bus.pieces[i].p = NULL;
    bus.device->memory.free(p, n);
}

static bool is_there(const char *p)
{
    bool there = false;
    for (size_t i = 0; i < SL_COUNT_OF(bus.pieces); i++)
        there |= bus.pieces[i].p && p >= bus.pieces[i].p && p < bus.pieces[i].p + bus.pieces[i].n;
    return there;
}

static int counted_copy(void *to, const void *from, size_t n)
{
    bus.up += is_there(to) && !is_there(from) ? n : 0;
    bus.down += is_there(from) && !is_there(to) ? n : 0;
    return bus.device->copy(to, from, n);
}

// The GPU, whose copies are counted; what it has of memory by then is nobody's.
static struct sl_device counted_device(const struct sl_device *device)
{
    struct sl_device d = *device;
    bus.device = device;
    d.memory.alloc = counted_alloc;
    d.memory.free = counted_free;
    d.copy = counted_copy;
    return d;
}

/*
 * What a batch costs the processor by what the cache has of it: the lists of its misses come from
 * the GPU, their rows go there. Of hits it gets and gives nothing, so a batch that is cached as a
 * whole is one copy, of the block, and no list is made.
 */
LOOP_TEST(a_hit_costs_the_processor_nothing, 0, 6)
{
    static const uint32_t share[] = {0, 20, 100}, half_dim[] = {0, 2 * COLUMNS};
    struct scene s;
    struct sl_gather g;
    struct sl_batch_buffer buffer[2] = {0};
    struct sl_gathered result;
    const uint32_t rows = share[_i % 3] * NODES / 100;
    scene_init(&s, NODES, COLUMNS, half_dim[_i / 3], 0);
    struct sl_device device = counted_device(s.gpu.device);
    s.cache.compute.device = &device;
    farm_publish_order(&s.f, 1);
    ask(&s, rows);
    const struct sl_compute compute = {&device, s.gpu.kernels, sl_kernels_cpu()};
    sl_gather_init(&g, &compute, &s.g.ds, SL_GATHER_STAGED);
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct sl_block *b = block_of(&s, i);
        bus.up = bus.down = 0;
        ck_assert_int_eq(
            sl_gather_block(&g, &s.cache, b, &buffer[1 - i % 2], &buffer[i % 2], &result), SL_OK);
        assert_features(&s, b, &g, buffer[i % 2].x);
        const uint64_t misses = b->n_input - result.hits, matched = result.matched,
                       word = sizeof(uint32_t);
        // To their places: where the GPU has listed that already, only if some were matched.
        const uint64_t places = rows == 0 || matched ? misses - matched : 0;
        ck_assert_uint_eq(bus.up, b->bytes + result.miss_bytes + word * (2 * matched + places));
        // The lists with all the room that they have: how long they are comes in the same wait.
        ck_assert_uint_eq(bus.down, rows && rows < NODES ? 2 * word * b->n_input : 0);
        ck_assert(rows < NODES || misses == 0);
        ck_assert_uint_eq(buffer[i % 2].matchable.n, misses);
        free(b);
    }
    ck_assert(rows < NODES || !(g.lists.p || g.device_lists.p || g.rows.p || g.staged.p ||
                                g.match.place || buffer[0].matchable.room.p));
    for (int i = 0; i < 2; i++)
        sl_batch_buffer_fini(&buffer[i]);
    sl_gather_fini(&g);
    sl_cache_fini(&s.cache);
    s.cache.compute.device = s.gpu.device;
    scene_fini(&s);
}

RUN_TESTS(.quiet = true, .timeout_s = 60, ON_A_GPU)
