// Rows between the links of several nodes, over a fake world.
#include "link/rows.h"

#include <unistd.h>

#include "common/arena/asks.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/shards_fixture.h"
#include "tests/unit/suite.h"

enum { VERTICES = 300, SLOT_ROWS = 40, SLOTS = 6, ROUNDS = 20, WORKER = 5 };

static struct fake_node nodes[FAKE_NODES_MAX];
static struct shards shards;
static _Atomic uint32_t ready, done;

// --- a node --------------------------------------------------------------------------------------

static void open_link(struct sl_world *w, uint32_t n_slots)
{
    struct sl_node_link *l = &links[w->rank];
    shards_arena(&shards, n_slots, SLOT_ROWS, &l->worker.arena);
    l->world = *w;
    l->dataset = shards.ds[w->rank];
    ck_assert_msg(sl_link_rows_init(l) == SL_OK, "%s", sl_error_message());
}

static void close_link(struct sl_node_link *l)
{
    const int fd = l->worker.arena.fd;
    sl_link_rows_fini(l);
    sl_arena_detach(&l->worker.arena);
    close(fd);
}

// All nodes' part until each has nothing to do any more.
static int serve_until_all(struct sl_node_link *l, _Atomic uint32_t *count)
{
    bool moved;
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < shards.count) {
        SL_TRY(sl_link_rows_poll(l, &moved));
        usleep(20);
    }
    return SL_OK;
}

// What does not wait: until nothing is under way.
static void become_quiet(struct sl_node_link *l)
{
    bool quiet = false;
    for (int i = 0; i < 1000 && !quiet; i++)
        ck_assert_int_eq(sl_link_rows_quiet(l, &quiet), SL_OK);
    ck_assert(quiet);
}

// An ask for these vertices, as a trainer writes it.
static struct sl_ask ask_for(struct sl_node_link *l, const uint32_t *vertices, uint32_t n)
{
    const struct sl_asks asks = sl_asks_of(&l->worker.arena);
    struct sl_ask ask;
    ck_assert(sl_asks_take(&asks, WORKER, &ask));
    ask.head->n = 0;
    ask.head->row_bytes = shards_width(&shards, n ? vertices[0] : 0);
    for (uint32_t node = 0; node < shards.count; node++) {
        for (uint32_t i = 0; i < n; i++)
            if (shards.part[vertices[i]] == node && node != l->world.rank)
                ask.vertices[ask.head->n++] = vertices[i];
        ask.head->end[node] = ask.head->n;
    }
    sl_asks_send(&l->worker.arena, &asks, &ask);
    return ask;
}

static int until(struct sl_node_link *l, const struct sl_ask *ask, enum sl_ask_state state)
{
    bool moved;
    for (int i = 0; sl_ask_state(ask) != state; i++) {
        ck_assert_int_lt(i, 1000000);
        SL_TRY(sl_link_rows_poll(l, &moved));
        usleep(20);
    }
    return SL_OK;
}

// --- tests ---------------------------------------------------------------------------------------

static void run(int (*body)(struct sl_world *w, struct fake_node *node), uint32_t count)
{
    shards = shards_make(VERTICES, count, 5, SL_DTYPE_F32, count == 4);
    fake_nodes_start(nodes, count, body);
    fake_nodes_join(nodes, count);
    shards_free(&shards);
}

static void expect_all_well(void)
{
    for (uint32_t i = 0; i < shards.count; i++)
        ck_assert_msg(nodes[i].rc == SL_OK, "%s", nodes[i].message);
}

// Of what came from one node.
static void expect_counted(uint32_t rank, uint32_t node, uint64_t rows)
{
    const struct sl_node_peer *peer = &links[rank].counted.peer[node];
    ck_assert_uint_eq(peer->rows, rows);
    ck_assert_uint_eq(peer->row_bytes, rows * shards.row_bytes);
    ck_assert_uint_ge(peer->in_bytes, peer->row_bytes);
    ck_assert(peer->asks <= ROUNDS * SLOTS && (peer->asks > 0) == (rows > 0));
}

// Several asks at once, of different sizes; each row is the right one.
static int ask_and_check(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    const struct sl_asks asks = (open_link(w, SLOTS), sl_asks_of(&l->worker.arena));
    uint32_t seed = 7 * w->rank + 1;
    uint64_t asked[FAKE_NODES_MAX] = {0};
    (void)node;
    for (int round = 0; round < ROUNDS; round++) {
        struct sl_ask ask[SLOTS];
        uint32_t vertices[SLOT_ROWS];
        for (int k = 0; k < SLOTS; k++) {
            const uint32_t n = round == 0 ? 0 : (seed >> 8) % SLOT_ROWS + 1;
            for (uint32_t i = 0; i < n; i++) {
                seed = seed * 1664525u + 1013904223u;
                vertices[i] = (seed >> 8) % VERTICES;
            }
            ask[k] = ask_for(l, vertices, n);
            for (uint32_t i = 0; i < ask[k].head->n; i++)
                asked[shards.part[ask[k].vertices[i]]]++;
        }
        for (int k = 0; k < SLOTS; k++) {
            SL_TRY(until(l, &ask[k], SL_ASK_ANSWERED));
            for (uint32_t i = 0; i < ask[k].head->n; i++)
                shards_expect_row(&shards, ask[k].vertices[i], ask[k].rows + i * shards.row_bytes);
            sl_asks_give_back(&l->worker.arena, &asks, &ask[k]);
        }
    }
    SL_TRY(serve_until_all(l, &done));
    become_quiet(l);
    close_link(l);
    for (uint32_t k = 0; k < shards.count; k++)
        expect_counted(w->rank, k, asked[k]);
    return SL_OK;
}

LOOP_TEST(nodes_give_one_another_their_rows, 2, 5)
{
    run(ask_and_check, (uint32_t)_i);
    expect_all_well();
}

// Rows of two types, each in its width.
static int ask_for_types(struct sl_world *w, struct fake_node *node)
{
    enum { SECOND = VERTICES / 2 };
    struct sl_node_link *l = &links[w->rank];
    const struct sl_asks asks = (open_link(w, SLOTS), sl_asks_of(&l->worker.arena));
    (void)node;
    for (uint32_t first = 0; first <= SECOND; first += SECOND) {
        uint32_t vertices[SLOT_ROWS];
        for (uint32_t i = 0; i < SLOT_ROWS; i++)
            vertices[i] = first + (i * 7 + 3 * w->rank) % SECOND;
        const struct sl_ask ask = ask_for(l, vertices, SLOT_ROWS);
        const uint32_t width = shards_width(&shards, first);
        SL_TRY(until(l, &ask, SL_ASK_ANSWERED));
        for (uint32_t i = 0; i < ask.head->n; i++)
            shards_expect_row(&shards, ask.vertices[i], ask.rows + (size_t)i * width);
        sl_asks_give_back(&l->worker.arena, &asks, &ask);
    }
    SL_TRY(serve_until_all(l, &done));
    become_quiet(l);
    close_link(l);
    return SL_OK;
}

LOOP_TEST(rows_of_each_type_have_their_width, 2, 5)
{
    shards = shards_make(VERTICES, (uint32_t)_i, 5, SL_DTYPE_F32, _i == 4);
    shards_add_type(&shards, VERTICES / 2);
    fake_nodes_start(nodes, (uint32_t)_i, ask_for_types);
    fake_nodes_join(nodes, (uint32_t)_i);
    expect_all_well();
    shards_free(&shards);
}

// A worker dies while rows are on their way; its slot is used again once they are there.
static int ask_and_die(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    const uint32_t vertices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    bool moved;
    (void)node;
    open_link(w, 1);
    if (w->rank == 0) {
        const struct sl_ask ask = ask_for(l, vertices, 12);
        SL_TRY(sl_link_rows_poll(l, &moved)); // asks the other node, which does not look yet
        sl_asks_reclaim(&l->worker.arena, WORKER);
        for (int i = 0; i < 10; i++)
            SL_TRY(sl_link_rows_poll(l, &moved));
        ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ORPHAN);
        atomic_store(&ready, 1);
        SL_TRY(until(l, &ask, SL_ASK_FREE));
        const struct sl_ask again = ask_for(l, vertices + 6, 6);
        SL_TRY(until(l, &again, SL_ASK_ANSWERED));
        for (uint32_t i = 0; i < again.head->n; i++)
            shards_expect_row(&shards, again.vertices[i], again.rows + i * shards.row_bytes);
    } else {
        AWAIT(atomic_load(&ready));
    }
    SL_TRY(serve_until_all(l, &done));
    become_quiet(l);
    close_link(l);
    return SL_OK;
}

TEST(a_dead_workers_rows_meet_no_other_ask)
{
    run(ask_and_die, 2);
    expect_all_well();
}

// An ask that nobody has begun with is simply free.
static int die_unseen(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    const uint32_t vertices[] = {0, 1, 2, 3};
    (void)node;
    open_link(w, 1);
    const struct sl_ask ask = ask_for(l, vertices, 4);
    sl_asks_reclaim(&l->worker.arena, WORKER);
    SL_TRY(until(l, &ask, SL_ASK_FREE));
    SL_TRY(serve_until_all(l, &done));
    become_quiet(l);
    close_link(l);
    ck_assert_uint_eq(l->counted.peer[1 - w->rank].out_bytes, 0);
    return SL_OK;
}

TEST(what_nobody_has_begun_is_not_sent)
{
    run(die_unseen, 2);
    expect_all_well();
}

// The others end before they answer.
static int leave_early(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    const uint32_t vertices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    bool moved;
    (void)node;
    open_link(w, SLOTS);
    if (w->rank == 0)
        ask_for(l, vertices, 8);
    SL_TRY(w->rank == 0 ? sl_link_rows_poll(l, &moved) : SL_OK);
    become_quiet(l);
    close_link(l);
    return SL_OK;
}

TEST(what_is_under_way_at_the_end_is_cancelled)
{
    run(leave_early, 3);
    expect_all_well();
}

// --- an ask as large as it may be, in one thread -------------------------------------------------

static void open_two(uint32_t feat_dim)
{
    shards = shards_make(VERTICES, 2, feat_dim, SL_DTYPE_F32, false);
    links_meet(2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sl_asks_shape shape = sl_asks_shape(1, 2, VERTICES, shards.row_bytes);
        struct sl_node_link *l = be(i);
        shards_arena(&shards, shape.n_slots, shape.max_rows, &l->worker.arena);
        l->dataset = shards.ds[i];
        well(sl_link_rows_init(l));
    }
}

static void close_two(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        become_quiet(be(i));
        sl_link_rows_fini(be(i));
    }
    links_close();
    shards_free(&shards);
}

// Rows of 16 KiB: a slot holds 4 MiB of them, whichever vertices those are. A node that answers
// copies a piece and looks at everything else, before it copies the next one.
TEST(the_largest_ask_is_answered_in_pieces)
{
    uint32_t vertices[SL_ASKS_ROWS_MAX], n = 0, looks = 0;
    bool moved;
    open_two(4096);
    struct sl_node_link *l = be(0);
    const uint32_t most = sl_asks_of(&l->worker.arena).shape.max_rows;
    ck_assert_uint_eq(most * shards.row_bytes, SL_ASKS_ROWS_BYTES);
    // More than there are: they come again.
    for (uint32_t v = 0; n < most; v = (v + 1) % VERTICES)
        if (shards.part[v] == 1)
            vertices[n++] = v;
    const struct sl_ask ask = ask_for(l, vertices, most);
    ck_assert_uint_eq(ask.head->n, most);
    well(sl_link_rows_poll(l, &moved));
    while (!fake.first || fake.first->tag != SL_WORLD_TAG_ROWS) {
        well(sl_link_rows_poll(be(1), &moved));
        ck_assert_int_lt(++looks, 100);
    }
    ck_assert_uint_ge(looks, SL_ASKS_ROWS_BYTES / SL_LINK_PIECE_BYTES);
    well(sl_link_rows_poll(be(0), &moved));
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ANSWERED);
    for (uint32_t i = 0; i < most; i++)
        shards_expect_row(&shards, vertices[i], ask.rows + (size_t)i * shards.row_bytes);
    close_two();
}

static uint32_t vertex_of(uint32_t part)
{
    uint32_t v = 0;
    while (shards.part[v] != part)
        v++;
    return v;
}

// Whoever asks more often than a node can answer at once waits, and loses nothing.
TEST(no_more_answers_are_under_way_than_there_is_room_for)
{
    enum { ASKS = SL_LINK_ANSWERS + 5 };
    struct sl_link_ask *m = calloc(1, sizeof *m + sizeof(uint32_t));
    struct sl_world_request r;
    bool moved;
    open_two(5);
    *m = (struct sl_link_ask){SL_LINK_ASK_MAGIC, 77, 1, shards.row_bytes};
    const uint32_t v = vertex_of(1);
    memcpy(m + 1, &v, sizeof v);
    be(0);
    for (int i = 0; i < ASKS; i++)
        well(fake_send(1, SL_WORLD_TAG_ASK, m, sizeof *m + sizeof v, &r));
    links_send_slowly(1);
    for (int i = 0; i < 10 * ASKS; i++)
        well(sl_link_rows_poll(be(1), &moved));
    ck_assert_uint_eq(slow.sent, SL_LINK_ANSWERS);
    slow.over = true;
    for (int i = 0; i < 10 * ASKS; i++)
        well(sl_link_rows_poll(be(1), &moved));
    ck_assert_uint_eq(slow.sent, ASKS);
    free(m);
    close_two();
}

// --- what a node must not ask for ----------------------------------------------------------------

static struct {
    struct sl_link_ask head;
    uint32_t vertices[SLOT_ROWS + 1];
    size_t bytes;
} bad;

static int send_bad(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    struct sl_world_request request;
    bool moved;
    int rc = SL_OK;
    (void)node;
    open_link(w, SLOTS);
    if (w->rank == 1) {
        rc = w->table->send(0, SL_WORLD_TAG_ASK, &bad.head, bad.bytes, &request);
        atomic_store(&ready, 1);
    } else {
        AWAIT(atomic_load(&ready));
        for (int i = 0; i < 100 && rc == SL_OK; i++)
            rc = sl_link_rows_poll(l, &moved);
    }
    if (rc == SL_OK)
        become_quiet(l);
    close_link(l);
    return w->rank == 0 ? rc : SL_EABORTED;
}

static const struct {
    uint64_t magic, shards;
    uint32_t n, row_bytes, less_bytes, part;
    const char *says;
} faults[] = {
    {SL_LINK_ASK_MAGIC, 77, 1, 20, 0, 1, "which is in part 1"},
    {SL_LINK_ASK_MAGIC, 77, 1, 20, 0, 2, "to before 300"},
    {SL_LINK_ASK_MAGIC, 78, 1, 20, 0, 0, "of shards 000000000000004e"},
    {SL_LINK_ASK_MAGIC, 77, 1, 24, 0, 0, "rows of 24 bytes"},
    {1, 77, 1, 20, 0, 0, "no ask"},
    {SL_LINK_ASK_MAGIC, 77, 2, 20, 4, 0, "no ask"},
    {SL_LINK_ASK_MAGIC, 77, SLOT_ROWS + 1, 20, 0, 0, "asks with 188 bytes, wanted 24 to 184"},
    {SL_LINK_ASK_MAGIC, 77, 0, 20, 4, 0, "asks with 20 bytes"},
};

LOOP_TEST(what_a_node_must_not_ask_for_is_an_error, 0, SL_COUNT_OF(faults))
{
    shards = shards_make(VERTICES, 2, 5, SL_DTYPE_F32, false);
    bad.head = (struct sl_link_ask){faults[_i].magic, faults[_i].shards, faults[_i].n,
                                    faults[_i].row_bytes};
    for (uint32_t i = 0; i <= SLOT_ROWS; i++)
        bad.vertices[i] = faults[_i].part < 2 ? vertex_of(faults[_i].part) : VERTICES;
    bad.bytes = sizeof bad.head + faults[_i].n * sizeof(uint32_t) - faults[_i].less_bytes;
    fake_nodes_start(nodes, 2, send_bad);
    fake_nodes_join(nodes, 2);
    ck_assert_int_eq(nodes[0].rc, SL_EPROTO);
    assert_part(nodes[0].message, faults[_i].says);
    assert_part(nodes[0].message, "host b (rank 1)");
    shards_free(&shards);
}

// The first vertex says the type of all.
TEST(rows_of_two_types_in_one_ask_are_an_error)
{
    enum { SECOND = VERTICES / 2 };
    const char *says[] = {"rows of 20 bytes", "wanted one from 150 to before 300"};
    for (int i = 0; i < 2; i++) {
        shards = shards_make(VERTICES, 2, 5, SL_DTYPE_F32, false);
        shards_add_type(&shards, SECOND);
        bad.head = (struct sl_link_ask){SL_LINK_ASK_MAGIC, 77, 2, i ? 2 : 20};
        bad.vertices[0] = SECOND;
        while (shards.part[bad.vertices[0]] != 0)
            bad.vertices[0]++;
        bad.vertices[1] = vertex_of(0);
        bad.bytes = sizeof bad.head + 2 * sizeof(uint32_t);
        atomic_store(&ready, 0);
        fake_nodes_start(nodes, 2, send_bad);
        fake_nodes_join(nodes, 2);
        ck_assert_int_eq(nodes[0].rc, SL_EPROTO);
        assert_part(nodes[0].message, says[i]);
        shards_free(&shards);
    }
}

// --- a worker's own memory -----------------------------------------------------------------------

static int damage(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    const struct sl_asks asks = (open_link(w, 1), sl_asks_of(&l->worker.arena));
    struct sl_ask ask;
    bool moved;
    int rc;
    (void)node;
    ck_assert(sl_asks_take(&asks, WORKER, &ask));
    ask.head->n = w->rank == 0 ? SLOT_ROWS + 1 : 1;
    ask.head->row_bytes = shards.row_bytes;
    ask.head->end[0] = ask.head->n; // of the second node: more than there are
    ask.head->end[1] = w->rank == 0 ? ask.head->n : 0;
    sl_asks_send(&l->worker.arena, &asks, &ask);
    rc = sl_link_rows_poll(l, &moved);
    close_link(l);
    return rc;
}

TEST(what_a_worker_cannot_have_written_is_an_error)
{
    run(damage, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(nodes[i].rc, SL_EPROTO);
        assert_part(nodes[i].message, "damaged");
    }
}

static int wrong_shard(struct sl_world *w, struct fake_node *node)
{
    struct sl_node_link *l = &links[w->rank];
    (void)node;
    shards_arena(&shards, SLOTS, SLOT_ROWS, &l->worker.arena);
    l->world = *w;
    l->dataset = shards.ds[1 - w->rank];
    const int rc = sl_link_rows_init(l);
    close_link(l);
    return rc;
}

TEST(each_node_has_its_own_shard)
{
    run(wrong_shard, 2);
    ck_assert_int_eq(nodes[0].rc, SL_EPROTO);
    assert_part(nodes[0].message, "is shard 1 of 2, wanted shard 0 of 2");
}

RUN_TESTS(.timeout_s = AWAIT_CASE_S)
