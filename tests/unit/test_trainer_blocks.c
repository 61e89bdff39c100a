// Blocks that a sampler's GPU leaves where they are: read there by trainers on the same GPU, each
// worker a process of its own.
#define FARM_DEVICES 3

#include "tests/unit/crew.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include <signal.h>
#include <sys/wait.h>

#include "trainer/feed/gather.h"
#include "trainer/feed/near_block.h"

// The sampler's GPU is that of its trainer's device as well, and of device 1; 2 has another one.
enum { NODES = 400, COLUMNS = 6, CLASSES = 4, SAMPLER = 0, OTHER = 2, ROOM = 3 };
#define SAME_GPU UINT64_C(3)

static struct {
    struct fixture_graph g;
    struct farm f;
    struct sl_block *block;
    struct sl_batch_entry entry;
} s;

enum order { LEND, SPOIL, WITHDRAW, BRING, DROP, LEAVE };

static void setup(void)
{
    s.g = fixture_graph(NODES, COLUMNS, CLASSES, 31);
    struct sl_config c = farm_job(2);
    farm_init(&s.f, &c, &s.g, sl_kernels_ref());
    s.block = farm_block(&s.f, s.g.ds.split[SL_SPLIT_TRAIN].ids, 20, 0, 0);
    s.entry.payload_bytes = SL_ARENA_CHUNK_BYTES;
    ck_assert_uint_le(s.block->bytes, s.entry.payload_bytes);
    s.entry.mirror_device = SAMPLER;
}

static void teardown(void)
{
    free(s.block);
    farm_fini(&s.f);
    fixture_graph_free(&s.g);
}

static void place_at(uint32_t chunk)
{
    s.entry.payload_offset =
        s.f.arena.h->region[SL_REGION_PAYLOAD].offset + (uint64_t)chunk * SL_ARENA_CHUNK_BYTES;
    memcpy(s.f.arena.base + s.entry.payload_offset, s.block, s.block->bytes);
}

// --- the sampler's half --------------------------------------------------------------------------

static uint64_t lend(const struct sl_device *device, char **mirror, uint32_t chunk)
{
    struct sl_peer_memory_offer offer = {.room = ROOM * SL_ARENA_CHUNK_BYTES};
    const uint64_t first = s.block->hop[0].indptr_offset;
    if (!*mirror) {
        *mirror = device->memory.alloc(offer.room);
        ck_assert_int_eq(device->fill(*mirror, 0xa5, offer.room), SL_OK);
    }
    if (chunk < ROOM) // what the GPU has drawn, and nothing of the processor's
        ck_assert_int_eq(device->copy(*mirror + (uint64_t)chunk * SL_ARENA_CHUNK_BYTES + first,
                                      (char *)s.block + first, s.block->bytes - first),
                         SL_OK);
    ck_assert_int_eq(device->sync(), SL_OK);
    ck_assert_int_eq(device->share(*mirror, &offer.share), SL_OK);
    ck_assert_int_eq(sl_peer_memory_live(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER), SL_OK);
    return sl_peer_memory_offer(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER, &offer);
}

// --- the trainer's half --------------------------------------------------------------------------

struct reader {
    const struct sl_plugin *plugin;
    struct sl_near_blocks near;
    struct sl_gather gather;
    struct sl_batch_buffer buffer;
};

struct answer {
    int rc;
    uint64_t near_bytes, version;
    uint64_t up, within; // bytes of the copies of the block's arrays: over the bus, within the GPU
};

// All of it is there as it was drawn, wherever it came from.
static struct answer bring(struct reader *r, const struct sl_batch_entry *entry)
{
    const struct sl_block *block = (const void *)(s.f.arena.base + entry->payload_offset);
    struct simt_counts before = {0}, after = {0};
    struct sl_gathered result;
    struct answer a = {0};
    r->gather.near = sl_near_block_find(&r->near, entry);
    gpu_counts(&before);
    a.rc = sl_gather_block(&r->gather, NULL, block, NULL, &r->buffer, &result);
    gpu_counts(&after);
    if (a.rc < 0)
        return a;
    void *found = gpu_get(r->plugin->device, r->buffer.arrays.p, s.block->bytes);
    ck_assert_mem_eq(found, s.block, s.block->bytes);
    free(found);
    a.near_bytes = result.near_bytes;
    a.up = after.pinned_to_bytes + after.pageable_to_bytes - before.pinned_to_bytes -
           before.pageable_to_bytes - result.miss_bytes;
    a.within = after.within_bytes - before.within_bytes;
    return a;
}

// --- both ----------------------------------------------------------------------------------------

struct message {
    enum order order;
    uint32_t chunk;
    struct sl_batch_entry entry;
};

struct seat {
    uint32_t device;
    uint64_t on_gpu;
};

static void serve(void *ctx, const struct crew_post *post)
{
    const struct seat *seat = ctx;
    struct reader r = {.plugin = gpu_open_one(seat->device == OTHER, 0)};
    const struct sl_compute compute = {r.plugin->device, r.plugin->kernels, sl_kernels_cpu()};
    struct message m;
    char *mirror = NULL;
    sl_gather_init(&r.gather, &compute, &s.g.ds, SL_GATHER_STAGED);
    sl_near_blocks_init(&r.near, &s.f.arena, seat->device, compute.device, seat->on_gpu);
    while (read(post->orders, &m, sizeof m) == sizeof m) {
        struct answer a = {0};
        switch (m.order) {
        case LEND: a.version = lend(compute.device, &mirror, m.chunk); break;
        case SPOIL:
            ck_assert_int_eq(compute.device->fill(mirror, 0xdb, ROOM * SL_ARENA_CHUNK_BYTES),
                             SL_OK);
            ck_assert_int_eq(compute.device->sync(), SL_OK);
            break;
        case WITHDRAW: sl_peer_memory_withdraw(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER); break;
        case BRING: a = bring(&r, &m.entry); break;
        case LEAVE: _exit(0);
        case DROP: sl_peer_import_drop(&r.near.borrowed); break;
        }
        ck_assert_int_eq(write(post->answers, &a, sizeof a), sizeof a);
    }
}

static struct crew start(uint32_t device, uint64_t on_gpu, const char *failpoint)
{
    return crew_start(serve, &(struct seat){device, on_gpu}, failpoint);
}

static void tell(const struct crew *w, enum order order, uint32_t chunk)
{
    const struct message m = {order, chunk, s.entry};
    ck_assert_int_eq(write(w->orders, &m, sizeof m), sizeof m);
}

static struct answer hear(const struct crew *w)
{
    struct answer a = {0};
    ck_assert_msg(read(w->answers, &a, sizeof a) == sizeof a, "a worker has failed");
    return a;
}

static struct answer ask(const struct crew *w, enum order order)
{
    tell(w, order, 0);
    return hear(w);
}

// The block lies there, and the sampler says so.
static void draw_at(const struct crew *sampler, uint32_t chunk)
{
    place_at(chunk);
    tell(sampler, LEND, chunk);
    s.entry.mirror_version = hear(sampler).version;
}

static void end(const struct crew *w, int sig)
{
    int status;
    if (sig)
        ck_assert_int_eq(kill(w->pid, sig), 0);
    else
        tell(w, LEAVE, 0);
    close(w->orders);
    ck_assert_int_eq(waitpid(w->pid, &status, 0), w->pid);
    ck_assert(sig ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(w->answers);
}

static uint64_t near_of(const struct sl_block *b)
{
    return b->bytes - b->hop[0].indptr_offset;
}

static void is_near(const struct answer *a)
{
    ck_assert_int_eq(a->rc, SL_OK);
    ck_assert_uint_eq(a->near_bytes, near_of(s.block));
}

static void is_far(const struct answer *a)
{
    ck_assert_int_eq(a->rc, SL_OK);
    ck_assert_uint_eq(a->near_bytes, 0);
}

// --- tests ---------------------------------------------------------------------------------------

CASE(.name = "blocks", .setup = setup, .teardown = teardown, .timeout_s = 60, ON_EMULATED_GPUS)

TEST(a_block_that_is_there_does_not_cross_the_bus)
{
    const struct crew sampler = start(SAMPLER, 0, "");
    const struct crew trainer[] = {start(SAMPLER, SAME_GPU, ""), start(1, SAME_GPU, "")};
    for (uint32_t chunk = 0; chunk < ROOM; chunk++) {
        draw_at(&sampler, chunk);
        for (int i = 0; i < 2; i++) {
            const struct answer a = ask(&trainer[i], BRING);
            is_near(&a);
            ck_assert_uint_eq(a.up, s.block->hop[0].indptr_offset);
            ck_assert_uint_ge(a.within, near_of(s.block));
        }
    }
    ck_assert(sl_peer_memory_is_read(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER));
    end(&trainer[0], 0);
    end(&trainer[1], 0);
    end(&sampler, 0);
}

TEST(beyond_the_mirror_and_from_other_gpus_it_comes_from_the_arena)
{
    const struct crew sampler = start(SAMPLER, 0, "");
    const struct crew trainer = start(1, SAME_GPU, ""), other = start(OTHER, 4, "");
    draw_at(&sampler, ROOM);
    struct answer a = ask(&trainer, BRING);
    is_far(&a);
    ck_assert_uint_eq(a.up, s.block->bytes);
    draw_at(&sampler, 1);
    a = ask(&other, BRING);
    is_far(&a);
    a = ask(&trainer, BRING);
    is_near(&a);
    s.entry.mirror_version = 0; // drawn by a processor
    a = ask(&trainer, BRING);
    is_far(&a);
    end(&trainer, 0);
    end(&other, 0);
    end(&sampler, 0);
}

TEST(a_sampler_that_withdraws_is_let_go)
{
    const struct crew sampler = start(SAMPLER, 0, ""), trainer = start(1, SAME_GPU, "");
    draw_at(&sampler, 0);
    struct answer a = ask(&trainer, BRING);
    is_near(&a);
    ask(&sampler, WITHDRAW);
    ck_assert(sl_peer_memory_is_read(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER));
    ask(&trainer, DROP);
    ck_assert(!sl_peer_memory_is_read(&s.f.arena, SL_PEER_MEMORY_BLOCKS, SAMPLER));
    a = ask(&trainer, BRING);
    is_far(&a);
    end(&trainer, 0);
    end(&sampler, 0);
}

// Nothing of what a dead sampler's memory has become reaches a batch: died before, or after.
TEST(a_dead_samplers_blocks_come_from_the_arena)
{
    struct crew sampler = start(SAMPLER, 0, "");
    const struct crew trainer = start(SAMPLER, SAME_GPU, "");
    draw_at(&sampler, 0);
    struct answer a = ask(&trainer, BRING);
    is_near(&a);
    end(&sampler, SIGKILL);
    a = ask(&trainer, BRING); // open, and nobody has buried it
    is_far(&a);
    a = ask(&trainer, BRING);
    is_far(&a);
    sl_peer_memory_vacate(&s.f.arena, SL_PEER_MEMORY_SAMPLER, SAMPLER);
    const struct sl_batch_entry old = s.entry;
    sampler = start(SAMPLER, 0, "");
    draw_at(&sampler, 1);
    a = ask(&trainer, BRING);
    is_near(&a);
    s.entry = old; // what the dead one has drawn is not looked for at the living one's
    a = ask(&trainer, BRING);
    is_far(&a);
    end(&trainer, 0);
    end(&sampler, 0);
}

TEST(a_sampler_that_dies_amid_a_copy_spoils_nothing)
{
    setenv("SLUICE_SIMT_SEED", "1", 1); // work is done when it is waited for
    const struct crew sampler = start(SAMPLER, 0, "");
    const struct crew trainer = start(1, SAME_GPU, "lent_block:stop");
    int status;
    draw_at(&sampler, 0);
    tell(&trainer, BRING, 0);
    ck_assert_int_eq(waitpid(trainer.pid, &status, WUNTRACED), trainer.pid);
    ck_assert(WIFSTOPPED(status));
    ask(&sampler, SPOIL);
    end(&sampler, SIGKILL);
    ck_assert_int_eq(kill(trainer.pid, SIGCONT), 0);
    const struct answer a = hear(&trainer);
    is_far(&a);
    end(&trainer, 0);
}

TEST(a_gpu_that_faults_at_it_is_an_error)
{
    setenv("SLUICE_SIMT_DEAD", "fault", 1);
    const struct crew sampler = start(SAMPLER, 0, ""), trainer = start(1, SAME_GPU, "");
    draw_at(&sampler, 0);
    struct answer a = ask(&trainer, BRING);
    is_near(&a);
    end(&sampler, SIGKILL);
    a = ask(&trainer, BRING);
    ck_assert_int_eq(a.rc, SL_EDEVICE);
    end(&trainer, 0);
}

CASE(.name = "blocks", .setup = setup, .teardown = teardown, .timeout_s = 60)

// Device 0 has both roles: the sampler's death takes nothing that its trainer reads of others, and
// the trainer's nothing that the sampler lends.
TEST(roles_on_one_device_are_buried_apart)
{
    struct sl_arena *a = &s.f.arena;
    const struct sl_peer_memory_offer offer = {.room = 1};
    ck_assert_int_eq(sl_peer_memory_live(a, SL_PEER_MEMORY_BLOCKS, 0), SL_OK);
    const uint64_t blocks = sl_peer_memory_offer(a, SL_PEER_MEMORY_BLOCKS, 0, &offer);
    const uint64_t rows = sl_peer_memory_offer(a, SL_PEER_MEMORY_FEATURES, 1, &offer);
    ck_assert(sl_peer_memory_open(a, SL_PEER_MEMORY_BLOCKS, 0, 0, blocks));
    ck_assert(sl_peer_memory_open(a, SL_PEER_MEMORY_FEATURES, 1, 0, rows));
    sl_peer_memory_vacate(a, SL_PEER_MEMORY_TRAINER, 0);
    ck_assert(!sl_peer_memory_is_read(a, SL_PEER_MEMORY_BLOCKS, 0) &&
              !sl_peer_memory_is_read(a, SL_PEER_MEMORY_FEATURES, 1));
    ck_assert(sl_peer_memory_is_alive(a, SL_PEER_MEMORY_BLOCKS, 0));
    ck_assert(sl_peer_memory_open(a, SL_PEER_MEMORY_BLOCKS, 0, 0, blocks));
    ck_assert(sl_peer_memory_open(a, SL_PEER_MEMORY_FEATURES, 1, 0, rows));
    sl_peer_memory_vacate(a, SL_PEER_MEMORY_SAMPLER, 0);
    ck_assert(!sl_peer_memory_is_read(a, SL_PEER_MEMORY_BLOCKS, 0) &&
              sl_peer_memory_is_read(a, SL_PEER_MEMORY_FEATURES, 1));
    ck_assert(!sl_peer_memory_is_alive(a, SL_PEER_MEMORY_BLOCKS, 0));
    ck_assert(!sl_peer_memory_open(a, SL_PEER_MEMORY_BLOCKS, 0, 0, blocks));
}

RUN_TESTS(.quiet = true)
