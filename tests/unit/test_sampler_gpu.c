// A GPU's blocks are the processor's, byte for byte: wherever the graph lies, whatever was drawn
// before, with ranks and without.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/data/self_loops.h"
#include "sampler/loop.h"

enum { N = 400, N_SEEDS = 60, EPOCH = 3, BATCH = 4 };

static struct fixture fx;
static struct sl_drawer drawer;
static const struct sl_plugin *gpu;
static struct sl_graph_placement residence;
static struct sl_drawer gpu_drawer;
static struct sl_graph_placement_files files = {-1, -1, -1}; // of copies

static void setup(void)
{
    fx = fixture_graph(N);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
    gpu = gpu_open(0);
}

static void setup_where_files_are_mapped(void)
{
    setenv("SLUICE_SIMT_READ_ONLY", "1", 1);
    setup();
}

static void bring_to(const struct sl_device *device, double share)
{
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .degrees = true, .share = share, .files = files, .threads = 2};
    ck_assert_msg(sl_graph_placement_open(&residence, &spec, device, gpu->kernels) == SL_OK, "%s",
                  sl_error_message());
    ck_assert_int_eq(sl_drawer_init_on(&gpu_drawer, &fx.topology, &residence), SL_OK);
}

static void bring(double share)
{
    bring_to(gpu->device, share);
}

static void teardown(void)
{
    sl_drawer_fini(&gpu_drawer);
    sl_graph_placement_close(&residence);
    ck_assert_uint_eq(sl_graph_placement_bytes(&residence), 0);
    sl_drawer_fini(&drawer);
    sl_self_loops_free(&fx.topology.self_loops);
    fixture_free(&fx);
}

static void expect_same(const struct sl_block *found, const struct sl_block *wanted)
{
    ck_assert_uint_eq(found->bytes, wanted->bytes);
    ck_assert_int_eq(memcmp(found, wanted, wanted->bytes), 0);
}

static void compare(const struct sl_draw_plan *plan, uint32_t batch, const uint32_t *seeds,
                    uint32_t n_seeds)
{
    struct sl_block *wanted = fixture_draw(&drawer, plan, EPOCH, batch, seeds, n_seeds);
    struct sl_block *found = fixture_draw(&gpu_drawer, plan, EPOCH, batch, seeds, n_seeds);
    expect_same(found, wanted);
    free(found);
    free(wanted);
}

static void compare_all(void)
{
    for (size_t p = 0; p < SL_COUNT_OF(fixture_plans); p++)
        compare(&fixture_plans[p], BATCH, fx.split[SL_SPLIT_TRAIN], 7);
}

CASE(.name = "gpu", .setup = setup, .teardown = teardown, .timeout_s = 60, ON_A_GPU)

LOOP_TEST(blocks_are_those_of_the_processor, 0, SL_COUNT_OF(fixture_plans))
{
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    bring(0.6);
    ck_assert_uint_eq(residence.n_resident, residence.n_edges);
    ck_assert_uint_gt(sl_graph_placement_bytes(&residence), 0);
    for (uint32_t n = 1; n <= N_SEEDS; n += n == 1 ? 31 : 28) // 1, 32, 60
        compare(&fixture_plans[_i], BATCH + n, seeds + n, n);
}

// Offsets alone fit, or nothing does: the rest is read where it lies.
LOOP_TEST(a_graph_that_does_not_fit_is_read_in_place, 0, 2)
{
    uint64_t free_bytes, total_bytes;
    ck_assert_int_eq(gpu->device->space(&free_bytes, &total_bytes), SL_OK);
    uint64_t fits = _i ? (N + 1) * sizeof(uint64_t) : 0;
    bring((double)fits * 1.001 / (double)free_bytes);
    ck_assert_uint_eq(residence.n_resident, 0);
    ck_assert_uint_eq(sl_graph_placement_bytes(&residence), fits);
    compare_all();
}

// No more edges than the job allows, whatever there is room for.
TEST(a_part_of_a_graph_that_fits)
{
    const uint64_t n_edges = fx.topology.dataset.n_edges;
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .share = 0.6, .most = 0.4, .files = files};
    ck_assert_int_eq(sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels), SL_OK);
    ck_assert_int_eq(sl_drawer_init_on(&gpu_drawer, &fx.topology, &residence), SL_OK);
    ck_assert_uint_le(residence.n_resident, n_edges * 4 / 10);
    ck_assert_uint_gt(residence.n_resident, n_edges * 4 / 10 - N);
    compare(&fixture_plans[0], BATCH, fx.split[SL_SPLIT_TRAIN], 7);
}

// Rows from the first on are on the device as far as it has room, the others are read where they
// lie; of weighted edges sums and neighbours alike.
LOOP_TEST(a_graph_that_fits_in_part_is_read_in_both_places, 0, 3)
{
    const uint64_t offsets = (N + 1) * sizeof(uint64_t) + N * sizeof(uint32_t);
    const uint64_t each = sizeof(int32_t) + sizeof(double), n_edges = fx.topology.dataset.n_edges;
    const uint64_t rows[] = {1, N / 3, N * 9 / 10};
    const uint64_t fits = fx.indptr[rows[_i]];
    struct sl_block *wanted[SL_COUNT_OF(fixture_plans)];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    uint64_t free_bytes, total_bytes;
    ck_assert_uint_gt(fits, 0);
    ck_assert_uint_lt(fits, n_edges);
    ck_assert_int_eq(gpu->device->space(&free_bytes, &total_bytes), SL_OK);
    // Half an edge more than the rows take.
    bring(((double)(offsets + fits * each) + (double)each / 2) / (double)free_bytes);
    ck_assert_uint_eq(residence.n_resident, fits);
    ck_assert_uint_eq(sl_graph_placement_bytes(&residence), offsets + fits * each);
    for (size_t p = 0; p < SL_COUNT_OF(fixture_plans); p++)
        wanted[p] = fixture_draw(&drawer, &fixture_plans[p], EPOCH, BATCH, seeds, N_SEEDS);
    // Whoever reads here what the device has would find other neighbours and no weights.
    memset(fx.indices, 0, fits * sizeof *fx.indices);
    memset((void *)(uintptr_t)fx.topology.view.weight_prefix, 0, fits * sizeof(double));
    for (size_t p = 0; p < SL_COUNT_OF(fixture_plans); p++) {
        struct sl_block *found =
            fixture_draw(&gpu_drawer, &fixture_plans[p], EPOCH, BATCH, seeds, N_SEEDS);
        expect_same(found, wanted[p]);
        free(found);
        free(wanted[p]);
    }
}

// What a file's mapping is: pages of their own that are not to be written.
static void *as_file(const void *from, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    if (from)
        memcpy(p, from, bytes);
    ck_assert_int_eq(mprotect(p, bytes, PROT_READ), 0);
    return p;
}

static void graph_as_files(void)
{
    struct sl_topology_view *v = &fx.topology.view;
    v->indptr = as_file(v->indptr, (N + 1) * sizeof *v->indptr);
    v->indices = as_file(v->indices, fx.topology.dataset.n_edges * sizeof(int32_t));
}

// The number of arrays that are copies of files, and the bytes of them.
static uint32_t copies(uint64_t *bytes)
{
    uint32_t n = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++) {
        n += residence.array[i].copy.data != NULL;
        *bytes += residence.array[i].copy.map_bytes;
    }
    return n;
}

TEST(files_that_a_device_can_not_map_are_copied)
{
    uint64_t bytes;
    graph_as_files();
    bring(0);
    ck_assert_uint_eq(copies(&bytes), 3); // offsets, degrees and neighbours
    ck_assert_uint_ge(bytes, fx.topology.dataset.n_edges * sizeof(int32_t));
    ck_assert_uint_eq(sl_graph_placement_bytes(&residence), 0);
    compare_all();
}

static int file_for_copy(void)
{
    int fd = sl_shared_array_file();
    ck_assert_int_ge(fd, 0);
    return fd;
}

static uint64_t held(int fd)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

// Another sampler, which is a process of its own, has no copies of its own.
TEST(samplers_have_one_copy_together)
{
    graph_as_files();
    files = (struct sl_graph_placement_files){file_for_copy(), file_for_copy(), file_for_copy()};
    int status;
    pid_t other = fork();
    if (other == 0) {
        bring(0);
        for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++)
            if (residence.array[i].copy.data && !residence.array[i].copy.made_here)
                _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const uint64_t before[] = {held(files.offsets), held(files.degrees), held(files.neighbours)};
    bring(0);
    for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++)
        ck_assert(!residence.array[i].copy.made_here);
    ck_assert_uint_ge(before[0], (N + 1) * sizeof(uint64_t));
    ck_assert_uint_ge(before[1], N * sizeof(uint32_t));
    ck_assert_uint_ge(before[2], fx.topology.dataset.n_edges * sizeof(int32_t));
    ck_assert_uint_eq(held(files.offsets), before[0]);
    ck_assert_uint_eq(held(files.degrees), before[1]);
    ck_assert_uint_eq(held(files.neighbours), before[2]);
    ck_assert(sl_graph_placement_way(&residence) == SL_STORE_WAY_COPY ||
              sl_graph_placement_way(&residence) == SL_STORE_WAY_COPY_HUGE);
    compare_all();
    close(files.offsets);
    close(files.degrees);
    close(files.neighbours);
}

CASE(.name = "gpu that maps files", .setup = setup_where_files_are_mapped, .teardown = teardown,
     ON_A_GPU)

TEST(files_that_a_device_can_map_are_not_copied)
{
    uint64_t bytes;
    graph_as_files();
    bring(0);
    ck_assert_uint_eq(copies(&bytes), 1); // degrees, which no file has
    compare_all();
}

CASE(.setup = setup, .teardown = teardown, .timeout_s = 60, ON_A_GPU)

// Memory is given out whether it is there or not: the message must come before the copy.
TEST(a_copy_that_leaves_no_memory_is_refused_with_the_figures)
{
    enum { EDGES = 4 << 20, MIB = 1 << 20 };
    const uint64_t bytes = (uint64_t)EDGES * sizeof(int32_t); // 16 MiB
    graph_as_files();
    fx.topology.view.weight_prefix = NULL;
    fx.topology.view.indices = as_file(NULL, bytes);
    fx.topology.dataset.n_edges = EDGES;
    struct rlimit space = {0};
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert(file && fgets(text, sizeof text, file));
    fclose(file);
    // An address space with room for the copy, of which it would be most.
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &space), 0);
    const rlim_t before = space.rlim_cur;
    space.rlim_cur = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) + 40 * MIB;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
    const struct sl_graph_placement_spec spec = {.topology = &fx.topology, .files = files};
    int rc = sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels);
    space.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
    ck_assert_int_eq(rc, SL_ENOMEM);
    const char *said = sl_error_message();
    ck_assert_msg(strstr(said, "no room for the 16 MiB of the neighbours (indices.npy)") &&
                      strstr(said, "are available, of which 1") &&
                      strstr(said, "use a CPU device for sampling"),
                  "%s", said);
}

// ---- pinned memory ----

static struct sl_device spy; // the GPU, and how much pinned memory it has lent
static uint64_t lent, largest;

static void *lend(size_t n)
{
    lent++;
    largest = SL_MAX(largest, (uint64_t)n);
    return gpu->device->host_alloc(n);
}

static void take_back(void *p, size_t n)
{
    lent--;
    gpu->device->host_free(p, n);
}

static struct sl_config small_job(void)
{
    struct sl_config c = {.seed = 12};
    c.sampler.n_fanout = 2;
    c.sampler.fanout[0] = c.sampler.fanout[1] = 5;
    c.sampler.batch_size = 50;
    c.evaluate.full = true;
    spy = *gpu->device;
    spy.host_alloc = lend;
    spy.host_free = take_back;
    return c;
}

// As in the job, whose arena is pinned: pageable memory would make each draw too slow.
TEST(probes_are_drawn_into_pinned_memory)
{
    struct sl_block_estimate e;
    const struct sl_config config = small_job();
    bring_to(&spy, 0.6);
    ck_assert_int_eq(sl_plan_measure(&config, &gpu_drawer, NULL, &e), SL_OK);
    ck_assert_uint_ge(largest, e.probe->bytes);
    ck_assert_uint_eq(lent, 0);
    sl_block_estimate_fini(&e);
}

static void *run_sampler(void *arg)
{
    ck_assert_int_eq(sl_sampler_run(arg), SL_OK);
    return NULL;
}

TEST(pre_sampling_draws_into_pinned_memory)
{
    struct sl_arena arena;
    const struct sl_config config = small_job();
    const struct sl_vertex_list *train = &fx.topology.dataset.split[SL_SPLIT_TRAIN];
    const struct sl_arena_spec shape = {.n_devices = 1,
                                        .n_cells = 64,
                                        .n_train = train->n,
                                        .n_params = 4,
                                        .n_state = 1,
                                        .batches_per_update = 4,
                                        .visit_rows = N,
                                        .payload_bytes = 1 << 20};
    const struct sl_phase_spec phase = {
        .kind = SL_PHASE_PRESAMPLE, .set = SL_SET_TRAIN, .batch_size = 50, .n_items = train->n};
    int fd = sl_arena_memfd();
    _Atomic bool stop = false;
    uint64_t seq;
    pthread_t thread;
    ck_assert_int_eq(sl_arena_create(fd, &shape, &arena), SL_OK);
    memcpy(sl_arena_order(&arena, 0), train->ids, train->n * sizeof *train->ids);
    bring_to(&spy, 0.6);
    struct sl_sampler sampler = {.arena = &arena,
                                 .worker = 1,
                                 .config = &config,
                                 .drawer = &gpu_drawer,
                                 .stop = &stop,
                                 .guess_bytes = 1000};
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &phase, &seq), SL_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_sampler, &sampler), 0);
    while (!sl_ledger_phase_complete(&arena, seq))
        usleep(1000);
    ck_assert_uint_eq(lent, SL_DEVICE_QUEUES);
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(largest, 1000);
    ck_assert_uint_eq(lent, 0);
    sl_arena_detach(&arena);
    close(fd);
}

TEST(degrees_are_without_self_loops_that_were_looked_for)
{
    for (uint32_t v = 0; v < N; v += 9) // some vertices are their own neighbours
        if (fx.indptr[v + 1] > fx.indptr[v])
            fx.indices[fx.indptr[v]] = (int32_t)v;
    ck_assert_int_eq(sl_topology_find_self_loops(&fx.topology, 1), SL_OK);
    ck_assert_uint_gt(fx.topology.self_loops.n_loops, 10);
    bring(0.6);
    const struct sl_draw_plan plan = {
        .n_hops = 2, .fanout = {5, 5}, .stream = SL_RNG_SAMPLE, .seed = 7, .degrees = true};
    compare(&plan, BATCH, fx.split[SL_SPLIT_TRAIN], N_SEEDS);
}

TEST(degrees_are_without_edges_of_weight_zero)
{
    fixture_drop_weightless(&fx);
    bring(0.6);
    const struct sl_draw_plan plan = {.kind = SL_SAMPLER_WEIGHTED,
                                      .n_hops = 2,
                                      .fanout = {-1, 5},
                                      .stream = SL_RNG_SAMPLE,
                                      .seed = 7,
                                      .degrees = true};
    compare(&plan, BATCH, fx.split[SL_SPLIT_TRAIN], N_SEEDS);
}

TEST(several_labels_a_seed_are_a_row_of_floats)
{
    enum { LABELS = 3 };
    static float target[N * LABELS];
    for (uint32_t i = 0; i < N * LABELS; i++)
        target[i] = (float)(i % 7 == 0);
    fx.topology.dataset.target = target;
    fx.topology.dataset.target_dtype = SL_DTYPE_F32;
    fx.topology.dataset.n_classes = LABELS;
    bring(0.6);
    compare(&fixture_plans[0], BATCH, fx.split[SL_SPLIT_TRAIN], N_SEEDS);
}

LOOP_TEST(memory_that_is_too_small_says_how_much_is_enough, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    bring(0.6);
    struct sl_block *wanted = fixture_draw(&drawer, plan, EPOCH, BATCH, seeds, N_SEEDS);
    uint64_t bytes = wanted->bytes, asked = 0;
    char *memory = fixture_alloc(2 * bytes + 4096);
    const uint64_t capacities[] = {0,         100,       sizeof *wanted, sizeof *wanted + 64,
                                   bytes / 2, bytes - 1, bytes};
    for (size_t i = 0; i < SL_COUNT_OF(capacities); i++) {
        memset(memory + capacities[i], 0x77, 256);
        int rc = fixture_draw_into(&gpu_drawer, plan, EPOCH, BATCH, seeds, N_SEEDS,
                                   (struct sl_block *)memory, capacities[i], &asked);
        ck_assert_int_eq(rc, capacities[i] < bytes ? SL_ERANGE : SL_OK);
        ck_assert_uint_gt(asked, capacities[i]);
        if (capacities[i] >= sizeof *wanted && rc == SL_ERANGE)
            ck_assert_uint_ge(asked, bytes); // it has been drawn, so it is known
        for (uint32_t b = 0; b < 256; b++)
            EXPECT(memory[capacities[i] + b] == 0x77, "written behind the end");
    }
    expect_same((struct sl_block *)memory, wanted);
    free(memory);
    free(wanted);
}

TEST(ranks_are_those_of_the_processor)
{
    static uint64_t words[N / 32 + 1];
    const struct sl_draw_plan *plan = &fixture_plans[0];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    uint64_t wanted_bytes;
    bring(0.6);
    struct sl_rank_index index = fixture_hot_thirds(words, N), there = index;
    there.words = gpu_put(gpu->device, words, sizeof words);
    char *wanted = fixture_alloc(1 << 20), *found = fixture_alloc(1 << 20);
    struct sl_block *w = (struct sl_block *)wanted, *f = (struct sl_block *)found;
    for (int again = 0; again < 4; again++) { // twice in either slot
        struct sl_draw_job job = {.plan = plan,
                                  .epoch = EPOCH,
                                  .batch = BATCH,
                                  .seeds = seeds,
                                  .n_seeds = N_SEEDS,
                                  .block = f,
                                  .capacity = 1 << 20,
                                  .ranks = &there,
                                  .generation = 3};
        ck_assert_int_eq(fixture_draw_into(&drawer, plan, EPOCH, BATCH, seeds, N_SEEDS, w, 1 << 20,
                                           &wanted_bytes),
                         SL_OK);
        ck_assert_int_eq(sl_drawer_draw(&gpu_drawer, &job, &wanted_bytes), SL_OK);
        ck_assert(!(f->flags & SL_BLOCK_HAS_RANKS)); // the digest is taken of it now
        expect_same(f, w);
        ck_assert_int_eq(fixture_mark(&drawer, &index, 3, w, 1 << 20), SL_OK);
        ck_assert_int_eq(sl_drawer_mark(&gpu_drawer, &job), SL_OK);
        expect_same(f, w);
        // Ranks belong to it: memory for all but them is too little.
        job.capacity = w->bytes - 1;
        ck_assert_int_eq(sl_drawer_draw(&gpu_drawer, &job, &wanted_bytes), SL_ERANGE);
        ck_assert_uint_ge(wanted_bytes, w->bytes);
    }
    gpu_free(gpu->device, (void *)(uintptr_t)there.words, sizeof words);
    free(wanted);
    free(found);
}

// Both slots at once, each begun before the other one is finished, in pinned memory and in other.
LOOP_TEST(two_batches_are_under_way_at_once, 0, SL_COUNT_OF(fixture_plans))
{
    enum { BATCHES = 7, BYTES = 1 << 20 };
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_draw_job job[2] = {0};
    uint64_t wanted_bytes;
    bring(0.6);
    ck_assert_uint_eq(sl_drawer_depth(&gpu_drawer), 2);
    ck_assert_uint_eq(sl_drawer_depth(&drawer), 1);
    for (int pinned = 0; pinned < 2; pinned++) {
        for (int i = 0; i < 2; i++)
            job[i].block = pinned ? gpu->device->host_alloc(BYTES) : fixture_alloc(BYTES);
        for (uint32_t batch = 0; batch <= BATCHES; batch++) {
            struct sl_draw_job *mine = &job[batch % 2], *other = &job[(batch + 1) % 2];
            struct sl_block *block = mine->block;
            *mine = (struct sl_draw_job){.plan = plan,
                                         .epoch = EPOCH,
                                         .batch = batch,
                                         .seeds = seeds + batch,
                                         .n_seeds = N_SEEDS - 7 * batch,
                                         .block = block,
                                         .capacity = BYTES};
            if (batch < BATCHES)
                ck_assert_int_eq(sl_drawer_begin(&gpu_drawer, mine), SL_OK);
            if (batch == 0)
                continue;
            ck_assert_int_eq(sl_drawer_finish(&gpu_drawer, other, &wanted_bytes), SL_OK);
            struct sl_block *want =
                fixture_draw(&drawer, plan, EPOCH, other->batch, other->seeds, other->n_seeds);
            expect_same(other->block, want);
            free(want);
        }
        for (int i = 0; i < 2; i++)
            if (pinned)
                gpu->device->host_free(job[i].block, BYTES);
            else
                free(job[i].block);
    }
}

// Nobody wants it any more: the slot is free again, and what is begun behind it is not disturbed.
TEST(a_batch_is_dropped)
{
    enum { BYTES = 1 << 20 };
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    uint64_t wanted_bytes;
    bring(0.6);
    struct sl_draw_job first = {.plan = &fixture_plans[0],
                                .epoch = EPOCH,
                                .seeds = seeds,
                                .n_seeds = N_SEEDS,
                                .block = gpu->device->host_alloc(BYTES),
                                .capacity = BYTES};
    struct sl_draw_job second = first;
    second.block = gpu->device->host_alloc(BYTES);
    for (int again = 0; again < 3; again++) {
        ck_assert_int_eq(sl_drawer_begin(&gpu_drawer, &first), SL_OK);
        ck_assert_int_eq(sl_drawer_begin(&gpu_drawer, &second), SL_OK);
        sl_drawer_drop(&gpu_drawer, &first);
        memset(first.block, 0, BYTES);
        ck_assert_int_eq(sl_drawer_finish(&gpu_drawer, &second, &wanted_bytes), SL_OK);
        struct sl_block *want = fixture_draw(&drawer, &fixture_plans[0], EPOCH, 0, seeds, N_SEEDS);
        expect_same(second.block, want);
        free(want);
        for (uint64_t i = 0; i < BYTES; i++)
            EXPECT(((char *)first.block)[i] == 0, "written after it was dropped");
    }
    gpu->device->host_free(first.block, BYTES);
    gpu->device->host_free(second.block, BYTES);
}

TEST(nothing_is_allocated_once_the_largest_batch_was_seen)
{
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    bring(0.6);
    // Of each slot the second one has the room that the first one was found to take.
    for (uint32_t i = 0; i < 2 * SL_DEVICE_QUEUES; i++)
        compare(&fixture_plans[0], 1, seeds, N_SEEDS);
    uint64_t held = gpu->device->held(), bytes = sl_drawer_bytes(&gpu_drawer);
    ck_assert_uint_gt(bytes, 0);
    for (uint32_t batch = 2; batch < 6; batch++)
        compare(&fixture_plans[0], batch, seeds + batch, N_SEEDS / 2);
    ck_assert_uint_eq(gpu->device->held(), held);
    ck_assert_uint_eq(sl_drawer_bytes(&gpu_drawer), bytes);
}

RUN_TESTS(.quiet = true)
