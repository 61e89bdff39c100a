// What brokers of several nodes say to one another through their links: real buses, a fake world.
#include "link/notes.h"

#include <unistd.h>

#include "common/bus/assignment.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/suite.h"

enum { N = 3, SOON_MS = 60000 };

static struct sl_bus *broker[N];
static struct sl_bus_peer peer[N]; // each broker's link

static void start(uint32_t rank)
{
    char endpoint[128], key[SL_BUS_KEY_TEXT];
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    Sl__Control__Envelope *m;
    struct sl_worker *w = &links[rank].worker;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    well(sl_bus_bind(endpoint, key, &broker[rank]));
    w->id = rank + 1;
    w->slot = SL_WORKER_NO_SLOT;
    w->fd.key = sl_bus_key_hand_over(key);
    w->fd.config = sl_assignment_make("{}", "{}");
    well(sl_worker_open(w, "link", endpoint));
    well(sl_worker_hello(w, &hello));
    well(sl_bus_receive(broker[rank], SOON_MS, &peer[rank], &m));
    sl_bus_message_free(m);
    well(sl_link_notes_init(&links[rank].notes, &links[rank].world));
}

static void setup(void)
{
    links_meet(N);
    for (uint32_t i = 0; i < N; i++)
        start(i);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N; i++) {
        sl_link_notes_fini(&links[i].notes);
        close(links[i].worker.fd.config);
        sl_worker_fini(&links[i].worker);
        sl_bus_close(broker[i], 0);
    }
    links_close();
}

static int look(uint32_t rank, bool *moved)
{
    struct sl_node_link *l = be(rank);
    *moved = false;
    return sl_link_notes_poll(&l->notes, &l->world, &l->worker, moved);
}

// A broker says it, and its link passes it on.
static void say(uint32_t rank, uint32_t kind, int status, char *text)
{
    Sl__Control__Note note = SL__CONTROL__NOTE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    bool moved;
    note.kind = (Sl__Control__NoteKind)kind;
    note.status = status;
    note.text = text;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_NOTE;
    e.note = &note;
    well(sl_bus_send(broker[rank], &peer[rank], &e));
    // Before Attach a link takes its notes where it waits for that.
    AWAIT(sl_worker_poll_attach(&links[rank].worker) == SL_EAGAIN && look(rank, &moved) == SL_OK &&
          moved);
}

static void expect(uint32_t rank, uint32_t from, uint32_t kind, int status, const char *text)
{
    Sl__Control__Envelope *m;
    well(sl_bus_receive(broker[rank], SOON_MS, NULL, &m));
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_NOTE);
    ck_assert_uint_eq(m->note->node, from);
    ck_assert_uint_eq(m->note->kind, kind);
    ck_assert_int_eq(m->note->status, status);
    ck_assert_str_eq(m->note->text, text);
    sl_bus_message_free(m);
}

// What a node sends that is no link of this build.
static void send_raw(uint32_t from, uint32_t to, const void *bytes, size_t n)
{
    struct sl_world_request r;
    be(from);
    well(fake_send(to, SL_WORLD_TAG_NOTE, bytes, n, &r));
}

static bool all(uint32_t rank, const bool *said)
{
    return sl_link_notes_all(&links[rank].notes, &links[rank].world, said);
}

CASE(.setup = setup, .teardown = teardown)

TEST(a_brokers_notes_reach_all_others_in_order)
{
    bool moved;
    say(1, SL__CONTROL__NOTE_KIND__NOTE_CHECKPOINT, 0, "ckpt-7");
    say(1, SL__CONTROL__NOTE_KIND__NOTE_BEGUN, 0, "");
    say(1, SL__CONTROL__NOTE_KIND__NOTE_END, -3, "a disk is full");
    for (uint32_t rank = 0; rank < N; rank += 2) {
        well(look(rank, &moved));
        expect(rank, 1, SL__CONTROL__NOTE_KIND__NOTE_CHECKPOINT, 0, "ckpt-7");
        expect(rank, 1, SL__CONTROL__NOTE_KIND__NOTE_BEGUN, 0, "");
        expect(rank, 1, SL__CONTROL__NOTE_KIND__NOTE_END, -3, "a disk is full");
        ck_assert(links[rank].notes.ended[1] && !links[rank].notes.ended[0]);
    }
    well(look(1, &moved)); // nothing of its own comes back
    ck_assert(!moved);
    ck_assert_ptr_null(fake.first);
}

TEST(the_end_is_there_once_all_have_said_it_and_been_heard)
{
    static const struct sl_link_note ready = {.kind = SL_LINK_NOTE_READY};
    bool moved;
    for (uint32_t i = 0; i < N; i++) {
        struct sl_node_link *l = be(i);
        ck_assert(!all(i, l->notes.ready));
        well(look(i, &moved)); // hears those before it
        well(sl_link_notes_say(&l->notes, &l->world, &ready));
        ck_assert(l->notes.ready[i]);
        ck_assert(!all(i, l->notes.ready)); // the last one's has not left
    }
    for (uint32_t i = 0; i < N; i++) {
        well(look(i, &moved));
        ck_assert(all(i, links[i].notes.ready));
        ck_assert(!all(i, links[i].notes.ended) && !all(i, links[i].notes.quiet));
    }
    // They are between links: what a broker hears next is a broker's.
    say(0, SL__CONTROL__NOTE_KIND__NOTE_FITS, 0, "");
    well(look(1, &moved));
    expect(1, 0, SL__CONTROL__NOTE_KIND__NOTE_FITS, 0, "");
}

TEST(a_text_ends_where_a_note_does)
{
    struct sl_link_note note = {.kind = SL__CONTROL__NOTE_KIND__NOTE_END};
    char longest[sizeof note.text];
    bool moved;
    memset(note.text, 'x', sizeof note.text);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    send_raw(2, 0, &note, sizeof note);
    well(look(0, &moved));
    expect(0, 2, SL__CONTROL__NOTE_KIND__NOTE_END, 0, longest);
    // One that a broker says too long is cut as well.
    char longer[3000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    say(1, SL__CONTROL__NOTE_KIND__NOTE_END, 0, longer);
    well(look(0, &moved));
    expect(0, 1, SL__CONTROL__NOTE_KIND__NOTE_END, 0, longest);
}

static const struct {
    uint32_t kind;
    size_t bytes;
    const char *says;
} faults[] = {
    {SL__CONTROL__NOTE_KIND__NOTE_END, 12, "sends a note of 12 bytes: wanted 2056"},
    {SL__CONTROL__NOTE_KIND__NOTE_END, sizeof(struct sl_link_note) + 1, "of 2057 bytes"},
    {SL__CONTROL__NOTE_KIND__NOTE_WARNING + 1, sizeof(struct sl_link_note), "a note of kind 5"},
    {SL_LINK_NOTE_QUIET + 1, sizeof(struct sl_link_note), "a note of kind 1002"},
    {UINT32_MAX, sizeof(struct sl_link_note), "a note of kind 4294967295"},
};

LOOP_TEST(what_is_no_note_is_an_error_of_its_node, 0, SL_COUNT_OF(faults))
{
    struct {
        struct sl_link_note note;
        char more[8];
    } bytes = {.note = {.kind = faults[_i].kind}};
    bool moved;
    send_raw(2, 1, &bytes, faults[_i].bytes);
    ck_assert_int_eq(look(1, &moved), SL_EPROTO);
    assert_part(sl_error_message(), faults[_i].says);
    assert_part(sl_error_message(), "host c (rank 2)");
    for (uint32_t i = 0; i < N; i++)
        ck_assert(!links[1].notes.ended[i] && !links[1].notes.quiet[i]);
}

static int refuse(uint32_t to, enum sl_world_tag tag, const void *bytes, size_t n,
                  struct sl_world_request *out)
{
    return to == 1 ? sl_fail(SL_EIO, "no route") : fake_send(to, tag, bytes, n, out);
}

TEST(a_node_that_is_not_reached_keeps_a_note_from_nobody_else)
{
    static const struct sl_link_note end = {.kind = SL__CONTROL__NOTE_KIND__NOTE_END,
                                            .text = "lost"};
    struct sl_world_table table = FAKE_TABLE;
    struct sl_node_link *l = be(0);
    bool moved;
    table.send = refuse;
    l->world.table = &table;
    ck_assert_int_eq(sl_link_notes_say(&l->notes, &l->world, &end), SL_EIO);
    assert_part(sl_error_message(), "host b (rank 1): no route");
    well(look(2, &moved));
    expect(2, 0, SL__CONTROL__NOTE_KIND__NOTE_END, 0, "lost");
}

RUN_TESTS(.quiet = true, .timeout_s = AWAIT_CASE_S)
