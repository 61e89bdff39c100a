// Edges that samplers' GPUs hold together: each sampler a process with a GPU of its own.
#include "tests/unit/crew.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

#include "common/arena/arena.h"
#include "sampler/share.h"

enum { N = 900, DEVICES = 8, SHIFT = 4, RUN = 1 << SHIFT, SEEDS = 12, EPOCH = 2 };
enum { TURNS = 4 }; // in which a sampler draws each kind of batch once
#define KIND SL_PEER_MEMORY_GRAPH

static struct fixture fx;
static struct sl_arena arena;
static int fd;
static struct sl_peer_memory_plan plan;
static uint64_t room; // edges that each has room for
static bool weighted;
static uint32_t turns; // TURNS, or more: then samplers share the kinds

static void setup(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = DEVICES, .n_cells = 8, .n_train = 1, .n_params = 1, .batches_per_update = 1};
    fx = fixture_graph(N);
    plan = (struct sl_peer_memory_plan){0};
    room = fx.topology.dataset.n_edges / 3;
    weighted = true;
    turns = TURNS;
    fd = sl_arena_memfd();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sl_arena_create(fd, &spec, &arena), SL_OK);
}

static void teardown(void)
{
    sl_arena_detach(&arena);
    close(fd);
    fixture_free(&fx);
}

// Part p on device p; behind `first` edges there are `elements` of each. Any reads all.
static void publish(uint32_t n, uint64_t first, uint64_t elements)
{
    plan = (struct sl_peer_memory_plan){.generation = plan.generation + 1,
                                        .n_parts = n,
                                        .shift = SHIFT,
                                        .first = first,
                                        .part_elements = elements / RUN * RUN};
    memset(plan.from, SL_PEER_MEMORY_NOBODY, sizeof plan.from);
    for (uint32_t p = 0; p < n; p++) {
        plan.held[p] = (uint32_t)1 << p;
        for (uint32_t d = 0; d < DEVICES; d++)
            plan.from[d][p] = (uint8_t)p;
    }
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
}

// Sixteen parts, of which device d holds those; as many edges of each as it has room for.
static void publish_held(const uint32_t held[DEVICES], uint64_t first)
{
    plan = (struct sl_peer_memory_plan){.generation = plan.generation + 1,
                                        .n_parts = SL_PEER_MEMORY_PARTS_MAX,
                                        .shift = SHIFT,
                                        .first = first,
                                        .part_elements = (fx.topology.dataset.n_edges - first) /
                                                         SL_PEER_MEMORY_PARTS_MAX / RUN * RUN};
    memset(plan.from, SL_PEER_MEMORY_NOBODY, sizeof plan.from);
    memcpy(plan.held, held, DEVICES * sizeof *held);
    for (uint32_t p = 0; p < SL_PEER_MEMORY_PARTS_MAX; p++)
        for (uint32_t holder = 0; holder < DEVICES; holder++)
            for (uint32_t d = 0; held[holder] >> p & 1 && d < DEVICES; d++)
                plan.from[d][p] = (uint8_t)holder;
    sl_peer_memory_publish(&arena, KIND, &plan, NULL);
}

// --- samplers ------------------------------------------------------------------------------------

enum order { REFRESH, DRAW, SPOIL, HELD, LOADED, LEAVE };

struct self {
    uint32_t d;
    uint32_t turn;
    const struct sl_plugin *plugin;
    struct sl_heartbeat pulse;
    struct sl_graph_placement residence;
    struct sl_share share;
    struct sl_drawer drawer, reference;
};

// As the sampler's loop does, with nothing in hand.
static void follow(struct self *s)
{
    if (!sl_share_is_current(&s->share))
        ck_assert_msg(sl_share_refresh(&s->share) == SL_OK, "%s", sl_error_message());
    sl_share_open(&s->share);
}

static uint64_t counted(uint32_t reader, uint32_t from)
{
    return sl_peer_memory_counted(&arena, KIND, reader, from);
}

// Two batches in hand of one kind, as the processor draws them.
static void draw_two(struct self *s, const struct sl_draw_plan *p, uint32_t batch)
{
    enum { CAPACITY = 1 << 20 };
    struct sl_draw_job job[2];
    struct sl_block *block[2];
    follow(s);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN] + (batch + i) * 7;
        block[i] = fixture_alloc(CAPACITY);
        job[i] = (struct sl_draw_job){.plan = p,
                                      .epoch = EPOCH,
                                      .batch = batch + i,
                                      .seeds = seeds,
                                      .n_seeds = SEEDS,
                                      .block = block[i],
                                      .capacity = CAPACITY};
        sl_share_open(&s->share);
        ck_assert_msg(sl_drawer_begin(&s->drawer, &job[i]) == SL_OK, "%s", sl_error_message());
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t wanted;
        ck_assert_msg(sl_drawer_finish(&s->drawer, &job[i], &wanted) == SL_OK, "%s",
                      sl_error_message());
        struct sl_block *b =
            fixture_draw(&s->reference, p, EPOCH, batch + i, job[i].seeds, job[i].n_seeds);
        ck_assert_uint_eq(block[i]->bytes, b->bytes);
        ck_assert_mem_eq(block[i], b, b->bytes);
        free(b);
        free(block[i]);
    }
}

// Batches of the kinds whose turn it is, with each device others at first. a: bytes that were read
// of others' parts; b: of the machine's memory.
static struct crew_answer draw(struct self *s)
{
    struct crew_answer before = {.b = counted(s->d, DEVICES)}, after = {0};
    for (uint32_t d = 0; d < DEVICES; d++)
        before.a += d == s->d ? 0 : counted(s->d, d);
    for (uint32_t p = (s->d + s->turn++) % turns; p < SL_COUNT_OF(fixture_plans); p += turns)
        if (weighted || fixture_plans[p].kind != SL_SAMPLER_WEIGHTED)
            draw_two(s, &fixture_plans[p], 0);
    for (uint32_t d = 0; d < DEVICES; d++)
        after.a += d == s->d ? 0 : counted(s->d, d);
    return (struct crew_answer){after.a - before.a, counted(s->d, DEVICES) - before.b};
}

static void bring(struct self *s)
{
    const struct sl_device *device = s->plugin->device;
    const uint64_t each = sizeof(int32_t) + (weighted ? sizeof(double) : 0);
    uint64_t free_bytes, total_bytes;
    ck_assert_int_eq(device->space(&free_bytes, &total_bytes), SL_OK);
    const uint64_t bytes = (N + 1) * sizeof(uint64_t) + N * sizeof(uint32_t) + room * each;
    const struct sl_graph_placement_spec spec = {.topology = &fx.topology,
                                                 .degrees = true,
                                                 .share =
                                                     (double)bytes * 1.0001 / (double)free_bytes,
                                                 .shares = true,
                                                 .files = {-1, -1, -1}};
    ck_assert_msg(sl_graph_placement_open(&s->residence, &spec, device, s->plugin->kernels) ==
                      SL_OK,
                  "%s", sl_error_message());
    ck_assert_int_eq(sl_drawer_init_on(&s->drawer, &fx.topology, &s->residence), SL_OK);
    sl_share_init(&s->share, &s->residence, &arena, s->d, &s->pulse);
    s->drawer.device.share = &s->share;
    ck_assert_int_eq(sl_drawer_init(&s->reference, &fx.topology, sl_kernels_ref()), SL_OK);
}

static void leave(struct self *s)
{
    const struct sl_device *device = s->plugin->device;
    const uint64_t held = device->held();
    const uint64_t bytes = sl_share_bytes(&s->share) + sl_graph_placement_bytes(&s->residence);
    sl_drawer_fini(&s->drawer);
    sl_share_fini(&s->share);
    sl_graph_placement_close(&s->residence);
    device->trim();
    ck_assert_uint_le(device->held() + bytes, held);
    ck_assert_uint_eq(s->share.others.opened, 0);
}

static void work(void *ctx, const struct crew_post *post)
{
    struct self *s = ctx;
    int order;
    s->plugin = gpu_open_one(s->d, 0);
    bring(s);
    while (crew_take(post, &order)) {
        struct crew_answer a = {0};
        struct sl_peer_export *parts = &s->share.parts;
        switch ((enum order)order) {
        case REFRESH: follow(s); break;
        case DRAW: a = draw(s); break;
        case SPOIL: // as memory is that was somebody's
            ck_assert_int_eq(s->plugin->device->fill(parts->p, 0xdb, parts->bytes), SL_OK);
            ck_assert_int_eq(s->plugin->device->sync(), SL_OK);
            break;
        case HELD:
            a = (struct crew_answer){sl_peer_export_elements(parts), s->residence.n_resident};
            break;
        case LOADED: a.a = parts->loaded; break;
        case LEAVE: leave(s); break;
        }
        crew_answer(post, a);
        if (order == LEAVE)
            break;
    }
}

static struct crew start(uint32_t d, const char *failpoint)
{
    struct self s = {.d = d, .pulse = {.arena = &arena}};
    return crew_start(work, &s, failpoint);
}

static void leave_all(const struct crew *c, uint32_t n)
{
    crew_leave_all(c, n, LEAVE);
    for (uint32_t d = 0; d < DEVICES; d++)
        ck_assert(!sl_peer_memory_is_read(&arena, KIND, d));
}

// --- tests ---------------------------------------------------------------------------------------

// Any number of holders, some edges on each of them or none, with links that are not there, with
// weights and without.
LOOP_TEST(blocks_are_the_same_wherever_edges_lie, 0, 8)
{
    static const uint32_t holders[] = {1, 2, 4, 8};
    const uint32_t n = holders[_i % 4];
    const bool some = _i / 4;
    const uint64_t n_edges = fx.topology.dataset.n_edges;
    struct crew c[DEVICES];
    weighted = (_i + some) % 2;
    if (!weighted)
        fx.topology.view.weight_prefix = NULL;
    room = n_edges / n + N;
    turns = SL_MAX(n, (uint32_t)TURNS);
    publish(n, some ? n_edges / 16 : 0, some ? n_edges / 16 : n_edges / n);
    if (some && n > 1) {
        plan.from[1][0] = SL_PEER_MEMORY_NOBODY;
        plan.generation++;
        sl_peer_memory_publish(&arena, KIND, &plan, NULL);
    }
    for (uint32_t d = 0; d < n; d++)
        c[d] = start(d, "");
    crew_ask_all(c, n, REFRESH);
    for (uint32_t d = 0; d < n; d++) {
        const struct crew_answer held = crew_ask(&c[d], HELD);
        ck_assert_uint_eq(held.a, plan.part_elements);
        ck_assert_uint_eq(held.b, plan.first);
    }
    for (uint32_t i = 0; i < turns; i++) { // each kind by one of them at least
        const uint32_t d = i % n;
        const struct crew_answer a = crew_ask(&c[d], DRAW);
        ck_assert(n == 1 || (some && n == 2 && d == 1) ? a.a == 0 : a.a > 0);
        ck_assert_uint_gt(a.b, 0); // of the last run, which is not a whole one
    }
    leave_all(c, n);
}

TEST(without_a_plan_each_has_what_it_has_room_for)
{
    struct crew c[2] = {start(0, ""), start(1, "")};
    for (uint32_t d = 0; d < 2; d++) {
        const struct crew_answer held = crew_ask(&c[d], HELD), a = crew_ask(&c[d], DRAW);
        ck_assert_uint_eq(held.a, 0);
        ck_assert_uint_gt(held.b, room - N); // whole rows
        ck_assert_uint_le(held.b, room);
        ck_assert_uint_eq(a.a, 0);
        ck_assert_uint_gt(a.b, 0);
    }
    leave_all(c, 2);
}

// Holders come and go, and what they keep is not loaded again: parts that stay where they are, move
// up and down in their memory, reach further than before or less far.
LOOP_TEST(parts_that_stay_are_not_loaded_again, 0, 2)
{
    static const uint32_t plans[][DEVICES] = {
        {0x00ff, 0xff00},                 // two
        {0x003f, 0x3f00, 0xc0c0},         // three
        {0x000f, 0x3c00, 0xc0c0, 0x0330}, // four
        {0, 0x7c00, 0xc0c7, 0x0338},      // without the first
        {0xf000, 0x0c0f, 0x00f0, 0x0330}, // new ones before and behind what is kept
        {0, 0xff0f, 0x00f0, 0xc4c0},      // one has none of what it had
    };
    struct crew c[4];
    uint64_t each[4] = {0}, loaded[4] = {0};
    weighted = _i;
    if (!weighted)
        fx.topology.view.weight_prefix = NULL;
    room = fx.topology.dataset.n_edges / 4;
    turns = 8; // one of the four draws each kind in most layouts
    for (uint32_t d = 0; d < 4; d++)
        c[d] = start(d, "");
    for (uint32_t k = 0; k < SL_COUNT_OF(plans); k++) {
        const uint32_t *before = plans[SL_MAX(k, 1u) - 1], *held = plans[k];
        publish_held(held, _i * 160);
        for (uint32_t i = 0; i < 3; i++) // closed by all, then laid out, then read
            crew_ask_all(c, 4, REFRESH);
        for (uint32_t d = 0; d < 4; d++) {
            const uint64_t n = (uint64_t)__builtin_popcount(held[d]);
            const uint64_t same = k ? (uint64_t)__builtin_popcount(held[d] & before[d]) : 0;
            const uint64_t had = each[d], was = loaded[d];
            each[d] = n ? crew_ask(&c[d], HELD).a / n : 0;
            loaded[d] = crew_ask(&c[d], LOADED).a;
            ck_assert_uint_eq(loaded[d] - was, n * each[d] - same * SL_MIN(each[d], had));
            if (n)
                ck_assert_uint_ge(n * each[d], (room - _i * 160) / 16 * 14);
        }
        for (uint32_t d = 0; d < 4; d++)
            ck_assert_uint_gt(crew_ask(&c[d], DRAW).a, 0);
    }
    leave_all(c, 4);
}

// One has room for all edges, the other for some: all of them are mapped once it gives some away.
TEST(a_gpu_with_room_for_all_lends_as_well)
{
    const uint64_t n_edges = fx.topology.dataset.n_edges;
    struct crew c[2];
    room = n_edges;
    c[0] = start(0, "");
    room = n_edges / 3;
    c[1] = start(1, "");
    crew_ask_all(c, 2, DRAW);
    publish(2, 160, n_edges / 4);
    crew_ask_all(c, 2, REFRESH);
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_uint_gt(crew_ask(&c[d], DRAW).a, 0);
        ck_assert_uint_eq(crew_ask(&c[d], HELD).b, 160);
    }
    leave_all(c, 2);
}

// A lender dies before, amid and after a draw: its bytes never reach a block, and its edges are
// read in the machine's memory until a replacement holds them.
LOOP_TEST(what_a_dead_lender_held_is_read_elsewhere, 0, 2)
{
    struct crew c[3];
    char seed[] = {(char)('0' + _i), '\0'};
    setenv("SLUICE_SIMT_SEED", seed, 1); // odd: kernels run when they are waited for
    turns = 8;
    publish(3, 160, fx.topology.dataset.n_edges / 4);
    for (uint32_t d = 0; d < 3; d++)
        c[d] = start(d, d == 2 ? "lent_drawing:2:stop" : "");
    crew_ask_all(c, 3, REFRESH);
    crew_kill(&c[0]); // before
    const struct crew_answer some = crew_ask(&c[1], DRAW);
    ck_assert_uint_gt(some.a, 0);
    crew_tell(&c[2], DRAW);
    crew_await_stop(&c[2]); // amid
    crew_ask(&c[1], SPOIL);
    crew_kill(&c[1]);
    ck_assert_int_eq(kill(c[2].pid, SIGCONT), 0);
    crew_hear(&c[2]);
    ck_assert_uint_eq(crew_ask(&c[2], DRAW).a, 0); // after
    ck_assert(!sl_peer_memory_is_read(&arena, KIND, 1));
    for (uint32_t d = 0; d < 2; d++) {
        sl_peer_memory_vacate(&arena, SL_PEER_MEMORY_SAMPLER, d);
        c[d] = start(d, "");
        crew_ask(&c[d], REFRESH);
    }
    for (uint32_t d = 0; d < 3; d++)
        ck_assert_uint_gt(crew_ask(&c[d], DRAW).a, 0);
    leave_all(c, 3);
}

RUN_TESTS(.quiet = true, .setup = setup, .teardown = teardown, .timeout_s = 120, ON_EMULATED_GPUS)
