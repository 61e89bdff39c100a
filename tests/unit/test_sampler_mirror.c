// What a sampler on a GPU leaves there of the blocks that it draws, in a real arena.
#include <pthread.h>
#include <unistd.h>

#include "common/arena/arena.h"
#include "common/arena/visit_counts.h"
#include "common/arena/peer_memory.h"
#include "sampler/loop.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

enum { N = 3000, BATCH = 100, DEVICE = 2, WORKER = DEVICE + 1 };

static struct fixture fx;
static struct sl_config config;
static struct sl_arena arena;
static int fd;
static const struct sl_plugin *gpu;
static struct sl_graph_placement residence;
static struct sl_mirror mirror;
static struct sl_drawer drawer;
static _Atomic bool stop;

static void open_gpu(void)
{
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .degrees = true, .share = 0.6, .files = {-1, -1, -1}};
    gpu = gpu_open(0);
    ck_assert_int_eq(sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels), SL_OK);
    ck_assert_int_eq(sl_drawer_init_on(&drawer, &fx.topology, &residence), SL_OK);
}

static void open_arena(void)
{
    const uint64_t n_train = fx.topology.dataset.split[SL_SPLIT_TRAIN].n;
    const struct sl_arena_spec spec = {.n_devices = DEVICE + 1,
                                       .n_cells = 64,
                                       .n_train = n_train,
                                       .n_params = 4,
                                       .n_state = 1,
                                       .batches_per_update = 4,
                                       .hot_rows = N,
                                       .payload_bytes = 16 << 20};
    void *there;
    fd = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_create(fd, &spec, &arena), SL_OK);
    memcpy(sl_arena_order(&arena, 0), fx.split[SL_SPLIT_TRAIN], n_train * sizeof(uint32_t));
    for (uint32_t i = 0; i < N; i++)
        sl_visit_counts_order(&arena)[i] = i;
    sl_visit_counts_set_tiers(&arena, (const uint64_t[]){N / 4}, 1);
    sl_visit_counts_publish(&arena, 1);
    const struct sl_region *payload = &arena.h->region[SL_REGION_PAYLOAD];
    ck_assert_int_eq(gpu->device->map(arena.base + payload->offset, payload->bytes, false, &there),
                     SL_OK);
}

static void setup(void)
{
    fx = fixture_graph(N);
    config = (struct sl_config){
        .seed = 12,
        .sampler = {.n_fanout = 2, .fanout = {10, 5}, .batch_size = BATCH},
    };
    open_gpu();
    open_arena();
}

static void teardown(void)
{
    sl_drawer_fini(&drawer);
    sl_mirror_close(&mirror);
    gpu->device->unmap(arena.base + arena.h->region[SL_REGION_PAYLOAD].offset);
    sl_graph_placement_close(&residence);
    sl_arena_detach(&arena);
    close(fd);
    fixture_free(&fx);
}

static void *run(void *ignored)
{
    struct sl_sampler sampler = {.arena = &arena,
                                 .worker = WORKER,
                                 .device = DEVICE,
                                 .config = &config,
                                 .drawer = &drawer,
                                 .stop = &stop,
                                 .guess_bytes = 64 << 10,
                                 .marker = {.device = gpu->device},
                                 .mirror = &mirror};
    (void)ignored;
    ck_assert_int_eq(sl_sampler_run(&sampler), SL_OK);
    return NULL;
}

// Draws an epoch's batches, which are all ready then; returns how many.
static uint32_t draw_epoch(uint64_t *seq)
{
    const struct sl_phase_spec spec = {.kind = SL_PHASE_TRAIN,
                                       .set = SL_SET_TRAIN,
                                       .batch_size = BATCH,
                                       .rank_generation = 1,
                                       .n_items = arena.h->spec.n_train};
    const uint32_t n = (uint32_t)((spec.n_items + BATCH - 1) / BATCH);
    struct sl_ledger_depth depth = {0};
    pthread_t thread;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &spec, seq), SL_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    for (; depth.batches[SL_CELL_READY] < n; sl_ledger_depth(&arena, &depth))
        usleep(1000);
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return n;
}

static void same_words(const char *found, const struct sl_block *block, uint64_t offset, uint64_t n)
{
    ck_assert_mem_eq(found + offset, (const char *)block + offset, n * sizeof(uint32_t));
}

// Whether a ready batch is in the mirror: as it is in the arena then.
static bool is_there(const struct sl_batch_entry *e)
{
    const struct sl_block *block = (const void *)(arena.base + e->payload_offset);
    uint64_t room;
    const char *p = sl_mirror_at(&mirror, e->payload_offset, &room);
    ck_assert_uint_eq(e->mirror_version, p && e->payload_bytes <= room ? mirror.version : 0);
    if (e->mirror_version == 0)
        return false;
    ck_assert_uint_eq(e->mirror_device, DEVICE);
    char *found = gpu_get(gpu->device, p, block->bytes);
    for (uint32_t h = 0; h < block->n_hops; h++) {
        same_words(found, block, block->hop[h].indptr_offset, block->hop[h].n_dst + 1);
        same_words(found, block, block->hop[h].indices_offset, block->hop[h].n_edges);
    }
    same_words(found, block, block->nodes_offset, block->n_input);
    ck_assert(block->flags & SL_BLOCK_HAS_RANKS);
    same_words(found, block, block->rank_offset, block->n_input);
    free(found);
    return true;
}

// Room for some of the batches of an epoch, by the bytes of a block.
static const uint64_t sizes[] = {SL_ARENA_CHUNK_BYTES / 8, SL_ARENA_CHUNK_BYTES / 4 + 1};

LOOP_TEST(blocks_in_the_first_bytes_are_in_the_mirror_too, 0, 2)
{
    uint64_t seq;
    uint32_t there = 0;
    sl_mirror_open(&mirror, gpu->device, sizes[_i]);
    ck_assert_uint_eq(mirror.bytes, SL_ARENA_CHUNK_BYTES * (2 + 2 * (uint64_t)_i));
    sl_mirror_lend(&mirror, &arena, DEVICE);
    const uint32_t n = draw_epoch(&seq);
    for (uint32_t cell = 0; cell < n; cell++)
        there += is_there(sl_ledger_entry(&arena, seq, cell));
    ck_assert(there > 0 && there < n);
    sl_mirror_close(&mirror);
    ck_assert(!sl_peer_memory_is_alive(&arena, SL_PEER_MEMORY_BLOCKS, DEVICE));
}

TEST(without_a_mirror_entries_name_none)
{
    uint64_t seq;
    sl_mirror_open(&mirror, gpu->device, UINT64_C(1) << 50); // nobody has so much
    ck_assert_ptr_null(mirror.p);
    sl_mirror_lend(&mirror, &arena, DEVICE);
    const uint32_t n = draw_epoch(&seq);
    for (uint32_t cell = 0; cell < n; cell++)
        ck_assert_uint_eq(sl_ledger_entry(&arena, seq, cell)->mirror_version, 0);
}

RUN_TESTS(.quiet = true, .setup = setup, .teardown = teardown, .timeout_s = 60, ON_A_GPU)
