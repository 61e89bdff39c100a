// Rows that trainers' GPUs hold together: each trainer a process with a GPU of its own.
#define FARM_DEVICES 8

#include "tests/unit/crew.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include "common/arena/peer_memory.h"
#include "trainer/feed/gather.h"

enum { NODES = 400, COLUMNS = 6, CLASSES = 4, BATCHES = 5 };
#define FEATURES_KIND SL_PEER_MEMORY_FEATURES

struct scene {
    struct fixture_graph g;
    struct farm f;
    void *half; // features of two bytes, or NULL
    struct sl_peer_memory_plan plan;
    enum sl_gather_way way;
    uint64_t budget;
};

// half_dim 0: f32 features.
static void scene_init(struct scene *s, uint32_t half_dim)
{
    *s = (struct scene){.g = fixture_graph(NODES, COLUMNS, CLASSES, 31), .way = SL_GATHER_STAGED};
    s->half = half_dim ? fixture_halve(&s->g, half_dim) : NULL;
    struct sl_config c = farm_job(2);
    farm_init(&s->f, &c, &s->g, sl_kernels_ref());
    farm_publish_order(&s->f, 1);
}

static void scene_fini(struct scene *s)
{
    farm_fini(&s->f);
    fixture_graph_free(&s->g);
    free(s->half);
}

// Part p on device p; behind `first` rows there are `elements` of each.
static void publish(struct scene *s, uint32_t n, uint64_t first, uint64_t elements)
{
    struct sl_peer_memory_plan *plan = &s->plan;
    uint64_t rows[FARM_DEVICES];
    *plan = (struct sl_peer_memory_plan){.generation = plan->generation + 1,
                                         .n_parts = n,
                                         .first = first,
                                         .part_elements = elements};
    memset(plan->from, SL_PEER_MEMORY_NOBODY, sizeof plan->from);
    for (uint32_t p = 0; p < n; p++) {
        plan->held[p] = (uint32_t)1 << p;
        for (uint32_t d = 0; d < FARM_DEVICES; d++)
            plan->from[d][p] = (uint8_t)p;
    }
    for (uint32_t d = 0; d < FARM_DEVICES; d++)
        rows[d] = d < n ? first + elements : atomic_load(&farm_seat(&s->f, d)->cache_rows);
    sl_peer_memory_publish(&s->f.arena, FEATURES_KIND, plan, rows);
}

// Sixteen parts over n of the devices, one behind the other; `rows` in all on each.
static void publish_dealt(struct scene *s, uint32_t n, uint64_t rows)
{
    const uint32_t each = SL_PEER_MEMORY_PARTS_MAX / n;
    uint64_t of[FARM_DEVICES] = {0};
    struct sl_peer_memory_plan *plan = &s->plan;
    *plan = (struct sl_peer_memory_plan){.generation = plan->generation + 1,
                                         .n_parts = SL_PEER_MEMORY_PARTS_MAX,
                                         .part_elements = rows / each};
    memset(plan->from, SL_PEER_MEMORY_NOBODY, sizeof plan->from);
    for (uint32_t p = 0; p < SL_PEER_MEMORY_PARTS_MAX; p++) {
        plan->held[p / each] |= (uint32_t)1 << p;
        for (uint32_t d = 0; d < FARM_DEVICES; d++)
            plan->from[d][p] = (uint8_t)(p / each);
    }
    for (uint32_t d = 0; d < n; d++)
        of[d] = rows;
    sl_peer_memory_publish(&s->f.arena, FEATURES_KIND, plan, of);
}

// --- trainers ------------------------------------------------------------------------------------

enum order { REFRESH, GATHER, REST, SPOIL, BROUGHT, LEAVE };

// Of device d's own.
struct self {
    struct scene *s;
    uint32_t d;
    const struct sl_plugin *plugin;
    struct sl_heartbeat pulse;
    struct sl_cache cache;
    struct sl_gather gather;
};

static struct sl_block *block_of(struct scene *s, uint32_t batch)
{
    const struct sl_vertex_list *list = &s->g.ds.split[SL_SPLIT_TRAIN];
    const uint32_t *seeds = list->ids + (batch * 7) % (list->n - 20);
    return fixture_rank(farm_block(&s->f, seeds, 20, 0, batch), s->f.rank_of, s->f.rank_generation);
}

// What each device should have given of a batch by the plan that the cache goes by, dealt out row
// by row.
static void expect(const struct self *t, const struct sl_block *b, uint64_t near,
                   uint64_t rows[FARM_DEVICES + 1])
{
    const struct sl_peer_memory_plan *plan = &t->cache.plan;
    for (uint32_t i = 0; i < b->n_input; i++) {
        const uint64_t rank = sl_block_ranks(b)[i];
        uint32_t at = FARM_DEVICES;
        uint64_t r = plan->first;
        if (rank < near)
            at = t->d;
        for (uint64_t e = 0; at == FARM_DEVICES && e < plan->part_elements; e++)
            for (uint32_t p = 0; p < plan->n_parts; p++, r++)
                if (r == rank && plan->from[t->d][p] != SL_PEER_MEMORY_NOBODY)
                    at = plan->from[t->d][p];
        rows[at]++;
    }
}

static void same_features(const struct self *t, const struct sl_block *b, const void *found)
{
    const struct sl_dataset *ds = &t->s->g.ds;
    const struct sl_compute host = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    struct sl_gather gather;
    struct sl_batch_buffer wanted = {0};
    struct sl_gathered ignored;
    sl_gather_init(&gather, &host, ds, SL_GATHER_FASTER);
    ck_assert_int_eq(sl_gather_block(&gather, NULL, b, NULL, &wanted, &ignored), SL_OK);
    const uint64_t bytes = (uint64_t)b->n_input * ds->feat_dim * sizeof(float);
    void *x = gpu_get(t->plugin->device, found, bytes);
    ck_assert_mem_eq(x, wanted.x, bytes);
    free(x);
    sl_batch_buffer_fini(&wanted);
    sl_gather_fini(&gather);
}

// Some batches; each has the store's bits, and each byte is counted where it was read.
// a: hits; b: rows that are held but were not met.
static struct crew_answer gather(struct self *t)
{
    struct sl_batch_buffer buffer = {0};
    struct crew_answer a = {0};
    const uint64_t row_bytes = sl_rows_bytes(&t->s->g.ds);
    for (uint32_t i = 0; i < BATCHES; i++) {
        uint64_t before[FARM_DEVICES + 1], rows[FARM_DEVICES + 1] = {0}, hits = 0;
        struct sl_gathered result;
        struct sl_block *b = block_of(t->s, i);
        for (uint32_t d = 0; d <= FARM_DEVICES; d++)
            before[d] = sl_peer_memory_counted(&t->s->f.arena, FEATURES_KIND, t->d, d);
        ck_assert_msg(sl_gather_block(&t->gather, &t->cache, b, NULL, &buffer, &result) == SL_OK,
                      "%s", sl_error_message());
        same_features(t, b, buffer.x);
        expect(t, b, t->cache.near[0].n_rows, rows);
        for (uint32_t d = 0; d <= FARM_DEVICES; d++) {
            const uint64_t bytes =
                sl_peer_memory_counted(&t->s->f.arena, FEATURES_KIND, t->d, d) - before[d];
            ck_assert_uint_eq(bytes % row_bytes, 0);
            if (d == FARM_DEVICES)
                break;
            ck_assert_uint_le(bytes, rows[d] * row_bytes);
            a.b += rows[d] - bytes / row_bytes;
            hits += bytes / row_bytes;
        }
        ck_assert_uint_eq(result.hits, hits);
        ck_assert_uint_eq(result.hit_bytes + result.miss_bytes, b->n_input * row_bytes);
        a.a += hits;
        free(b);
    }
    sl_batch_buffer_fini(&buffer);
    return a;
}

static void serve(struct self *t, const struct crew_post *post)
{
    const struct sl_device *device = t->plugin->device;
    int order;
    uint64_t held, bytes;
    while (crew_take(post, &order)) {
        struct crew_answer a = {0};
        switch ((enum order)order) {
        case REFRESH: sl_cache_refresh(&t->cache); break;
        case GATHER: a = gather(t); break;
        case REST: sl_cache_rest(&t->cache); break;
        case BROUGHT: a.a = t->cache.parts.loaded; break;
        case SPOIL: // as memory is that was somebody's
            ck_assert_int_eq(device->fill(t->cache.parts.p, 0xdb, t->cache.parts.bytes), SL_OK);
            ck_assert_int_eq(device->sync(), SL_OK);
            break;
        case LEAVE:
            held = device->held();
            bytes = t->cache.near[0].bytes + t->cache.parts.bytes;
            sl_cache_fini(&t->cache);
            sl_gather_fini(&t->gather);
            ck_assert_int_eq(device->sync(), SL_OK);
            device->trim();
            ck_assert_uint_le(device->held() + bytes, held);
            ck_assert_uint_eq(t->cache.borrowed.opened, 0);
            break;
        }
        crew_answer(post, a);
        if (order == LEAVE)
            break;
    }
}

static void work(void *ctx, const struct crew_post *post)
{
    struct self *t = ctx;
    struct scene *s = t->s;
    t->plugin = gpu_open_one(t->d, s->budget);
    const struct sl_compute gpu = {t->plugin->device, t->plugin->kernels, sl_kernels_cpu()};
    sl_cache_init(&t->cache, &s->f.arena, sl_seat_trainer(&s->f.arena, t->d), &s->g.ds, &gpu,
                  &t->pulse);
    sl_gather_init(&t->gather, &gpu, &s->g.ds, s->way);
    serve(t, post);
}

static struct crew start(struct scene *s, uint32_t d, const char *failpoint)
{
    struct self t = {.s = s, .d = d, .pulse = {.arena = &s->f.arena}};
    return crew_start(work, &t, failpoint);
}

static void bury(struct scene *s, uint32_t d)
{
    sl_seat_vacate(&s->f.arena, sl_seat_trainer(&s->f.arena, d));
    sl_peer_memory_vacate(&s->f.arena, SL_PEER_MEMORY_TRAINER, d);
}

// What they had open and held is gone then.
static void leave_all(struct scene *s, const struct crew *t, uint32_t n)
{
    crew_leave_all(t, n, LEAVE);
    for (uint32_t d = 0; d < FARM_DEVICES; d++)
        ck_assert(!sl_peer_memory_is_read(&s->f.arena, FEATURES_KIND, d));
}

static uint64_t loaded(struct scene *s, uint32_t d)
{
    return atomic_load(&farm_seat(&s->f, d)->cache_loaded);
}

// --- tests ---------------------------------------------------------------------------------------

// Any number of holders, some rows on each of them or none, with links that are not there, for
// each kind of features and either way that misses go. Device 7 holds rows for itself alone.
LOOP_TEST(features_are_the_same_wherever_they_lie, 0, 24)
{
    static const uint32_t holders[] = {1, 2, 4, 7}, half_dim[] = {0, 4, 3};
    const uint32_t n = holders[_i % 4];
    const bool some = _i / 4 % 2; // on each, and links are missing
    struct scene s;
    struct crew t[FARM_DEVICES];
    scene_init(&s, half_dim[_i / 8 % 3]);
    s.way = _i % 2 ? SL_GATHER_MAPPED : SL_GATHER_STAGED;
    publish(&s, n, some ? 30 : 0, some ? 40 : NODES); // more than there are
    if (some && n > 1) {
        s.plan.from[1][0] = SL_PEER_MEMORY_NOBODY;
        s.plan.from[7][n - 1] = SL_PEER_MEMORY_NOBODY;
        s.plan.generation++;
        sl_peer_memory_publish(&s.f.arena, FEATURES_KIND, &s.plan, NULL);
    }
    atomic_store(&farm_seat(&s.f, 7)->cache_rows, 50);
    for (uint32_t d = 0; d < n; d++)
        t[d] = start(&s, d, "");
    t[n] = start(&s, 7, "");
    crew_ask_all(t, n + 1, REFRESH);
    for (uint32_t d = 0; d < n; d++)
        ck_assert_uint_eq(loaded(&s, d), some ? 70 : NODES);
    ck_assert_uint_eq(loaded(&s, 7), 50);
    for (uint32_t i = 0; i <= n; i++) {
        const struct crew_answer a = crew_ask(&t[i], GATHER);
        ck_assert_uint_eq(a.b, 0);
        ck_assert_uint_gt(a.a, 0);
    }
    leave_all(&s, t, n + 1);
    scene_fini(&s);
}

TEST(a_new_order_is_laid_out_anew)
{
    struct scene s;
    struct crew t[2];
    scene_init(&s, 0);
    publish(&s, 2, 10, 100);
    for (uint32_t d = 0; d < 2; d++)
        t[d] = start(&s, d, "");
    crew_ask_all(t, 2, REFRESH);
    crew_ask_all(t, 2, GATHER);
    // Batches of the old order are hits as long as others read it.
    farm_publish_order(&s.f, 2);
    crew_ask(&t[0], REFRESH);
    ck_assert_uint_eq(atomic_load(&farm_seat(&s.f, 0)->cache_generation), 1);
    ck_assert_uint_eq(crew_ask(&t[0], GATHER).b, 0);
    crew_ask_all(t, 2, REFRESH);
    crew_ask_all(t, 2, REFRESH);
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_uint_eq(atomic_load(&farm_seat(&s.f, d)->cache_generation), 2);
        ck_assert_uint_eq(loaded(&s, d), 110);
    }
    leave_all(&s, t, 2);
    scene_fini(&s);
}

// A lender dies before, amid and after a read: its bytes never reach a batch, and the rows are
// read in the machine's memory until a replacement holds them.
LOOP_TEST(what_a_dead_lender_held_is_read_elsewhere, 0, 2)
{
    struct scene s;
    struct crew t[3];
    char seed[] = {(char)('0' + _i), '\0'};
    setenv("SLUICE_SIMT_SEED", seed, 1); // odd: kernels run when they are waited for
    scene_init(&s, 0);
    publish(&s, 3, 10, NODES);
    for (uint32_t d = 0; d < 3; d++)
        t[d] = start(&s, d, d == 2 ? "lent_gathering:2:stop" : "");
    crew_ask_all(t, 3, REFRESH);
    crew_kill(&t[0]); // before
    ck_assert_uint_gt(crew_ask(&t[1], GATHER).b, 0);
    crew_tell(&t[2], GATHER);
    crew_await_stop(&t[2]); // amid
    crew_ask(&t[1], SPOIL);
    crew_kill(&t[1]);
    ck_assert_int_eq(kill(t[2].pid, SIGCONT), 0);
    ck_assert_uint_gt(crew_hear(&t[2]).b, 0);
    ck_assert(!sl_peer_memory_is_read(&s.f.arena, FEATURES_KIND, 1));
    ck_assert_uint_gt(crew_ask(&t[2], GATHER).b, 0); // after
    for (uint32_t d = 0; d < 2; d++) {
        bury(&s, d);
        t[d] = start(&s, d, "");
        crew_ask(&t[d], REFRESH);
    }
    for (uint32_t d = 0; d < 3; d++)
        ck_assert_uint_eq(crew_ask(&t[d], GATHER).b, 0);
    leave_all(&s, t, 3);
    scene_fini(&s);
}

// The dead one is buried and replaced while a reader is still amid a batch.
TEST(a_replacement_is_not_taken_for_the_dead)
{
    struct scene s;
    struct crew t[2];
    setenv("SLUICE_SIMT_SEED", "1", 1);
    scene_init(&s, 0);
    publish(&s, 2, 0, NODES);
    t[0] = start(&s, 0, "");
    t[1] = start(&s, 1, "lent_gathering:stop");
    crew_ask_all(t, 2, REFRESH);
    crew_tell(&t[1], GATHER);
    crew_await_stop(&t[1]);
    crew_ask(&t[0], SPOIL);
    crew_kill(&t[0]);
    bury(&s, 0);
    t[0] = start(&s, 0, "");
    crew_ask(&t[0], REFRESH);
    ck_assert_int_eq(kill(t[1].pid, SIGCONT), 0);
    crew_hear(&t[1]);
    ck_assert_uint_eq(crew_ask(&t[1], GATHER).b, 0);
    leave_all(&s, t, 2);
    scene_fini(&s);
}

// Of parts that stay only what they reach further is loaded: two trainers become four, and two.
TEST(rows_that_stay_are_not_loaded_again)
{
    static const uint32_t holders[] = {2, 4, 2};
    // By device, in all. The first has 8 parts of 10 rows, half of them of 20, and all 8 again; the
    // second has others each time.
    static const uint64_t brought[][4] = {{80, 80, 0, 0}, {120, 160, 80, 80}, {160, 240, 80, 80}};
    struct scene s;
    struct crew t[4];
    scene_init(&s, 0);
    for (uint32_t d = 0; d < 4; d++)
        t[d] = start(&s, d, "");
    for (uint32_t k = 0; k < SL_COUNT_OF(holders); k++) {
        publish_dealt(&s, holders[k], 80);
        for (uint32_t i = 0; i < 2; i++) // closed by all, then laid out
            crew_ask_all(t, 4, REFRESH);
        for (uint32_t d = 0; d < 4; d++) {
            ck_assert_uint_eq(crew_ask(&t[d], BROUGHT).a, brought[k][d]);
            ck_assert_uint_eq(loaded(&s, d), d < holders[k] ? 80 : 0);
            ck_assert_uint_eq(crew_ask(&t[d], GATHER).b, 0);
        }
    }
    leave_all(&s, t, 4);
    scene_fini(&s);
}

// ... and who dies amid that leaves nothing behind that anybody reads.
TEST(a_lender_may_die_amid_its_moves)
{
    struct scene s;
    struct crew t[4];
    scene_init(&s, 0);
    for (uint32_t d = 0; d < 4; d++)
        t[d] = start(&s, d, d == 0 ? "lent_moving:2" : "");
    publish_dealt(&s, 2, 80);
    crew_ask_all(t, 4, REFRESH);
    crew_ask_all(t, 4, GATHER);
    publish_dealt(&s, 4, 80);
    crew_ask_all(t, 4, REFRESH); // withdrawn by all, then closed by the others
    crew_ask_all(&t[1], 3, REFRESH);
    crew_tell(&t[0], REFRESH);
    crew_await_death(&t[0]);
    for (uint32_t d = 1; d < 4; d++)
        crew_ask(&t[d], GATHER);
    bury(&s, 0);
    t[0] = start(&s, 0, "");
    for (uint32_t i = 0; i < 2; i++)
        crew_ask_all(t, 4, REFRESH);
    for (uint32_t d = 0; d < 4; d++) {
        ck_assert_uint_eq(loaded(&s, d), 80);
        ck_assert_uint_eq(crew_ask(&t[d], GATHER).b, 0);
    }
    leave_all(&s, t, 4);
    scene_fini(&s);
}

static const char *const lender_dies[] = {"lent_filling", "lent_offered", "lent_withdrawn"};

LOOP_TEST(a_lender_may_die_at_any_step, 0, SL_COUNT_OF(lender_dies))
{
    struct scene s;
    struct crew t[2];
    scene_init(&s, 0);
    publish(&s, 2, 10, 100);
    t[0] = start(&s, 0, lender_dies[_i]);
    t[1] = start(&s, 1, "");
    crew_ask(&t[1], REFRESH);
    crew_tell(&t[0], REFRESH);
    if (strcmp(lender_dies[_i], "lent_withdrawn") == 0) {
        crew_hear(&t[0]);
        crew_ask(&t[1], GATHER);
        publish(&s, 2, 20, 90);
        crew_tell(&t[0], REFRESH);
    }
    crew_await_death(&t[0]);
    crew_ask(&t[1], GATHER);
    bury(&s, 0);
    crew_ask(&t[1], REFRESH);
    t[0] = start(&s, 0, "");
    crew_ask_all(t, 2, REFRESH);
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_uint_eq(loaded(&s, d), 110);
        ck_assert_uint_eq(crew_ask(&t[d], GATHER).b, 0);
    }
    leave_all(&s, t, 2);
    scene_fini(&s);
}

// With less memory than the plan wants there is less of each part, and nothing beyond the budget.
TEST(want_of_memory_lends_less_of_each_part)
{
    enum { BUDGET = 8 << 10 };
    struct scene s;
    struct crew t[2];
    scene_init(&s, 0);
    publish(&s, 2, 0, NODES); // both parts on device 0
    s.plan.held[0] = 3;
    s.plan.held[1] = 0;
    for (uint32_t d = 0; d < 2; d++)
        s.plan.from[d][0] = s.plan.from[d][1] = 0;
    s.plan.generation++;
    sl_peer_memory_publish(&s.f.arena, FEATURES_KIND, &s.plan, NULL);
    atomic_store(&farm_seat(&s.f, 0)->cache_rows, NODES);
    atomic_store(&farm_seat(&s.f, 1)->cache_rows, 0);
    s.budget = BUDGET;
    t[0] = start(&s, 0, "");
    s.budget = 0;
    t[1] = start(&s, 1, "");
    crew_ask_all(t, 2, REFRESH);
    ck_assert_uint_gt(loaded(&s, 0), 0);
    ck_assert_uint_le(loaded(&s, 0), BUDGET / (COLUMNS * sizeof(float)));
    const struct crew_answer a = crew_ask(&t[1], GATHER); // of both parts
    ck_assert_uint_gt(a.a, 0);
    ck_assert_uint_gt(a.b, 0);
    leave_all(&s, t, 2);
    scene_fini(&s);
}

RUN_TESTS(.quiet = true, .timeout_s = 120, ON_EMULATED_GPUS)
