// Where a GPU reads the features: in the files, in one copy for all, or not at all.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"
#include "tests/unit/typed_blocks.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "common/arena/shared_array.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/typed_block.h"

enum { NODES = 2000, FEATURES = 400, CLASSES = 4 }; // more than a huge page of them

struct scene {
    struct fixture_graph g;
    struct farm f;
    struct sl_compute gpu;
    void *file; // read-only pages, as a data set's
    int fd;     // of the copy
};

static uint64_t feature_bytes(const struct scene *s)
{
    return s->g.ds.n_nodes * sl_rows_bytes(&s->g.ds);
}

static void scene_init(struct scene *s)
{
    *s = (struct scene){.g = fixture_graph(NODES, FEATURES, CLASSES, 31)};
    struct sl_config c = farm_job(2);
    farm_init(&s->f, &c, &s->g, sl_kernels_ref());
    const struct sl_plugin *plugin = gpu_open(0);
    s->gpu = (struct sl_compute){plugin->device, plugin->kernels, sl_kernels_cpu()};
    s->fd = sl_shared_array_file();
    ck_assert_int_ge(s->fd, 0);
    s->file =
        mmap(NULL, feature_bytes(s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(s->file != MAP_FAILED);
    memcpy(s->file, s->g.ds.feat, feature_bytes(s));
    mprotect(s->file, feature_bytes(s), PROT_READ);
    s->g.ds.feat = s->file;
}

static void scene_fini(struct scene *s)
{
    munmap(s->file, feature_bytes(s));
    close(s->fd);
    farm_fini(&s->f);
    fixture_graph_free(&s->g);
}

static uint64_t copied(const struct scene *s)
{
    struct stat st;
    ck_assert_int_eq(fstat(s->fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

// What a batch gets by that store is what the files hold.
static void assert_batch(struct scene *s, struct sl_gather *g)
{
    const struct sl_vertex_list *list = &s->g.ds.split[SL_SPLIT_TRAIN];
    struct sl_block *b = farm_block(&s->f, list->ids, 20, 0, 0);
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered result;
    struct sl_dataset files = s->g.ds;
    files.feat = s->file;
    float *wanted = fixture_input(&files, b);
    const uint64_t bytes = (uint64_t)b->n_input * FEATURES * sizeof *wanted;
    g->way = g->store.there ? SL_GATHER_MAPPED : SL_GATHER_STAGED;
    ck_assert_msg(sl_gather_block(g, NULL, b, NULL, &buffer, &result) == SL_OK, "%s",
                  sl_error_message());
    ck_assert_int_eq(g->way, g->store.there ? SL_GATHER_MAPPED : SL_GATHER_STAGED);
    float *found = gpu_get(s->gpu.device, buffer.x, bytes);
    ck_assert_mem_eq(found, wanted, bytes);
    free(found);
    free(wanted);
    sl_batch_buffer_fini(&buffer);
    free(b);
}

#define ANY SL_STORE_WAY_COUNT // a copy in whatever pages

static const struct {
    bool files; // the driver pins read-only memory
    const char *fail;
    enum sl_store_way plan;
    bool pins, other_size;
    enum sl_store_way found;
    bool there, copies;
} cases[] = {
    {true, "", SL_STORE_WAY_COPY, true, false, SL_STORE_WAY_FILE, true, false},
    {true, "", SL_STORE_WAY_LARGE, true, false, SL_STORE_WAY_FILE, true, false},
    {true, "", SL_STORE_WAY_CACHED, true, false, SL_STORE_WAY_CACHED, false, false},
    {true, "", SL_STORE_WAY_DRIVE, true, false, SL_STORE_WAY_DRIVE, false, false},
    {false, "", SL_STORE_WAY_COPY, true, false, ANY, true, true},
    {false, "", SL_STORE_WAY_LARGE, true, false, SL_STORE_WAY_LARGE, false, false},
    {false, "", SL_STORE_WAY_BOUND, true, false, SL_STORE_WAY_BOUND, false, false},
    {false, "", SL_STORE_WAY_CACHED, true, false, SL_STORE_WAY_CACHED, false, false},
    {false, "", SL_STORE_WAY_COPY, false, false, SL_STORE_WAY_UNPINNABLE, false, false},
    {false, "noregister", SL_STORE_WAY_COPY, true, false, SL_STORE_WAY_UNPINNABLE, false, true},
    {false, "", SL_STORE_WAY_COPY, true, true, SL_STORE_WAY_FAILED, false, false},
};

LOOP_TEST(the_way_is_found_and_told, 0, SL_COUNT_OF(cases))
{
    struct scene s;
    struct sl_gather g;
    _Atomic uint32_t told = 0;
    if (cases[_i].files)
        setenv("SLUICE_SIMT_READ_ONLY", "1", 1);
    else
        unsetenv("SLUICE_SIMT_READ_ONLY");
    setenv("SLUICE_SIMT_FAIL", cases[_i].fail, 1);
    scene_init(&s);
    if (cases[_i].other_size)
        ck_assert_int_eq(ftruncate(s.fd, 4096), 0);
    sl_gather_init(&g, &s.gpu, &s.g.ds, SL_GATHER_FASTER);
    g.store.told = &told;
    const struct sl_store_plan plan = {
        .way = cases[_i].plan, .pins = cases[_i].pins, .fd = s.fd, .threads = 2};
    ck_assert_int_eq(sl_store_place(&g.store, &s.g.ds, &plan), SL_OK);
    enum sl_store_way wanted = cases[_i].found;
    if (wanted == ANY)
        wanted = g.store.copy.huge ? SL_STORE_WAY_COPY_HUGE : SL_STORE_WAY_COPY;
    ck_assert_uint_eq(atomic_load(&told), wanted);
    ck_assert_int_eq(g.store.there != NULL, cases[_i].there);
    ck_assert_int_eq(s.g.ds.feat != s.file, cases[_i].copies);
    ck_assert_int_eq(copied(&s) >= feature_bytes(&s), cases[_i].copies);
    if (cases[_i].found != SL_STORE_WAY_CACHED && cases[_i].found != SL_STORE_WAY_DRIVE)
        assert_batch(&s, &g);
    ck_assert_uint_eq(atomic_load(&told), wanted);
    sl_gather_fini(&g);
    scene_fini(&s);
}

TEST(a_stop_ends_the_start)
{
    struct scene s;
    struct sl_store store;
    const _Atomic bool stops = true;
    unsetenv("SLUICE_SIMT_READ_ONLY");
    scene_init(&s);
    sl_store_init(&store, s.gpu.device, &s.g.ds);
    const struct sl_store_plan plan = {
        .way = SL_STORE_WAY_COPY, .pins = true, .fd = s.fd, .threads = 1, .stops = &stops};
    ck_assert_int_eq(sl_store_place(&store, &s.g.ds, &plan), SL_EABORTED);
    ck_assert_ptr_eq(s.g.ds.feat, s.file);
    sl_store_fini(&store);
    scene_fini(&s);
}

// Measured to be slower than staging, the copy is what the processor gathers from.
TEST(what_is_faster_is_told)
{
    struct scene s;
    struct sl_gather g;
    _Atomic uint32_t told = 0;
    unsetenv("SLUICE_SIMT_READ_ONLY");
    scene_init(&s);
    sl_gather_init(&g, &s.gpu, &s.g.ds, SL_GATHER_FASTER);
    g.store.told = &told;
    const struct sl_store_plan plan = {
        .way = SL_STORE_WAY_COPY, .pins = true, .fd = s.fd, .threads = 2};
    ck_assert_int_eq(sl_store_place(&g.store, &s.g.ds, &plan), SL_OK);
    const struct sl_vertex_list *list = &s.g.ds.split[SL_SPLIT_TRAIN];
    struct sl_block *b = farm_block(&s.f, list->ids, 20, 0, 0);
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered result;
    ck_assert_int_eq(sl_gather_block(&g, NULL, b, NULL, &buffer, &result), SL_OK);
    const bool staged = g.way == SL_GATHER_STAGED;
    ck_assert_int_eq(atomic_load(&told) == SL_STORE_WAY_FASTER, staged);
    ck_assert_int_eq(g.store.there == NULL, staged);
    ck_assert_ptr_eq(s.g.ds.feat, g.store.copy.data);
    sl_batch_buffer_fini(&buffer);
    free(b);
    sl_gather_fini(&g);
    scene_fini(&s);
}

static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(p != MAP_FAILED);
    return p;
}

// In place and through copies, of types with halves, with odd rows, with none and without vertices.
LOOP_TEST(rows_of_several_widths_are_those_of_the_processor, 0, 3)
{
    static const enum sl_gather_way ways[] = {SL_GATHER_MAPPED, SL_GATHER_STAGED, SL_GATHER_FASTER};
    // In pages of their own: those of the features are pinned.
    struct tb_graph *graph = pages(sizeof *graph);
    struct tb_block *block = pages(sizeof *block);
    const struct sl_store_plan plan = {.way = SL_STORE_WAY_TYPES, .fd = -1, .threads = 1};
    const struct sl_typed *typed = &graph->ds.typed;
    const struct sl_plugin *plugin = gpu_open(0);
    const struct sl_compute compute = {plugin->device, plugin->kernels, sl_kernels_cpu()};
    const struct sl_compute cores = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    struct sl_gather g, own;
    struct sl_batch_buffer found = {0}, wanted = {0};
    struct sl_gathered result;
    tb_graph_make(graph);
    tb_block_make(block, graph, 0, 3);
    const struct sl_block *b = tb_header(block);
    sl_gather_init(&own, &cores, &graph->ds, SL_GATHER_FASTER);
    sl_gather_init(&g, &compute, &graph->ds, ways[_i]);
    ck_assert_int_eq(sl_store_place(&g.store, &graph->ds, &plan), SL_OK);
    ck_assert_ptr_nonnull(g.store.there);
    ck_assert_int_eq(sl_gather_block(&own, NULL, b, NULL, &wanted, &result), SL_OK);
    ck_assert_msg(sl_gather_block(&g, NULL, b, NULL, &found, &result) == SL_OK, "%s",
                  sl_error_message());
    ck_assert_uint_eq(result.miss_bytes, tb_feature_bytes(&graph->ds.typed, b));
    char *rows =
        gpu_get(compute.device, found.x, sl_typed_rows_at(b, typed, typed->n_types, SL_TYPED_F32));
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint64_t at = sl_typed_rows_at(b, typed, t, SL_TYPED_F32);
        const uint64_t n = (uint64_t)sl_typed_block_rows(b, t) * typed->type[t].feat_dim;
        if (n > 0)
            ck_assert_mem_eq(rows + at, (const char *)wanted.x + at, n * sizeof(float));
    }
    free(rows);
    sl_batch_buffer_fini(&found);
    sl_batch_buffer_fini(&wanted);
    sl_gather_fini(&g);
    sl_gather_fini(&own);
    munmap(graph, sizeof *graph);
    munmap(block, sizeof *block);
}

RUN_TESTS(.quiet = true, .timeout_s = 60, ON_A_GPU)
