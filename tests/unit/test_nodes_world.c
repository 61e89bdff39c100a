// Waits between nodes, and how each of them ends.
#include "nodes/world.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "common/base/interrupt.h"
#include "tests/unit/nodes_fake_world.h"
#include "tests/unit/suite.h"

enum { PATIENT_S = 1000 };

static struct fake_node nodes[FAKE_NODES_MAX];
static _Atomic bool release;

// Each sends its number to the next one around.
static int around(struct sl_world *w, struct fake_node *node)
{
    uint32_t got;
    const uint32_t next = (w->rank + 1) % w->size, last = (w->rank + w->size - 1) % w->size;
    SL_TRY(sl_world_put(w, next, &w->rank, sizeof w->rank, PATIENT_S));
    SL_TRY(sl_world_get(w, last, &got, sizeof got, PATIENT_S));
    ck_assert_uint_eq(got, last);
    for (uint32_t i = 0; i < w->size; i++)
        ck_assert_str_eq(w->member[i].host, nodes[i].host);
    return SL_OK;
}

TEST(all_know_all_hosts_and_leave_together)
{
    fake_nodes_start(nodes, 4, around);
    fake_nodes_join(nodes, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(nodes[i].rc == SL_OK, "%s", nodes[i].message);
    ck_assert_uint_eq(fake.closes, 4);
}

static int large(struct sl_world *w, struct fake_node *node)
{
    const size_t n = (size_t)5 << 29;
    char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    fake.messages = 0;
    return w->rank == 0 ? sl_world_put(w, 1, p, n, PATIENT_S) : sl_world_get(w, 0, p, n, PATIENT_S);
}

TEST(what_is_larger_than_a_message_goes_in_pieces)
{
    fake_nodes_start(nodes, 2, large);
    fake_nodes_join(nodes, 2);
    ck_assert_msg(nodes[0].rc == SL_OK && nodes[1].rc == SL_OK, "%s", nodes[1].message);
    ck_assert_uint_eq(fake.largest, SL_WORLD_CHUNK_BYTES);
}

// Node 1 stands still; the others wait for its word.
static int freeze_second(struct sl_world *w, struct fake_node *node)
{
    unsigned char word;
    if (w->rank == 1) {
        AWAIT(atomic_load(&release));
        return SL_OK;
    }
    return sl_world_get(w, w->rank == 0 ? 1 : 0, &word, sizeof word, PATIENT_S);
}

TEST(a_node_that_freezes_is_named_by_the_first)
{
    fake_nodes_start(nodes, 2, freeze_second);
    fake_nodes_advance(nodes, 2, 1 << 1);
    ck_assert_int_eq(nodes[0].rc, SL_ETIMEDOUT);
    assert_part(nodes[0].message, "host b (rank 1) was not heard of for 10 s");
    release = true;
    fake_nodes_advance(nodes, 2, 0);
    fake_nodes_join(nodes, 2);
    // It comes back to a world that has ended without it.
    ck_assert_int_eq(nodes[1].rc, SL_ETIMEDOUT);
    assert_part(nodes[1].message, "host a (rank 0) was not heard of");
}

TEST(a_node_that_is_cut_off_is_named_and_ends_too)
{
    fake_nodes_start(nodes, 3, freeze_second);
    for (int i = 0; i < 3; i++)
        fake.cut[1][i] = fake.cut[i][1] = true;
    release = true;
    fake_nodes_advance(nodes, 3, 0);
    fake_nodes_join(nodes, 3);
    assert_part(nodes[0].message, "host b (rank 1) was not heard of for 10 s");
    assert_part(nodes[1].message, "host a (rank 0) was not heard of for 10 s");
    // The first has gone: no abort of a fake reaches the others.
    assert_part(nodes[2].message, "host a (rank 0) was not heard of for 10 s");
}

// 1 and 2 do not reach each other, while both reach 0, which waits for 1.
static int wait_for_third(struct sl_world *w, struct fake_node *node)
{
    unsigned char word = 0;
    if (w->rank == 1)
        return sl_world_get(w, 2, &word, sizeof word, 30);
    return sl_world_get(w, w->rank == 0 ? 1 : 0, &word, sizeof word, PATIENT_S);
}

TEST(a_wait_for_a_node_that_lives_has_a_bound_of_its_own)
{
    fake_nodes_start(nodes, 3, wait_for_third);
    fake_nodes_advance(nodes, 3, 0);
    fake_nodes_join(nodes, 3);
    ck_assert_int_eq(nodes[1].rc, SL_ETIMEDOUT);
    assert_part(nodes[1].message, "host b (rank 1) and host c (rank 2) do not reach each other");
}

static int wait_for_release(void *ctx)
{
    AWAIT(atomic_load(&release));
    return ctx ? sl_fail(SL_EIO, "the drive is gone") : SL_OK;
}

static int work_long(struct sl_world *w, struct fake_node *node)
{
    return sl_world_during(w, wait_for_release, w->rank == 1 ? w : NULL);
}

// A machine that sleeps counts for nobody's silence; work beside the pulses is no silence either.
TEST(a_long_sleep_of_all_and_long_work_end_nothing)
{
    fake_nodes_start(nodes, 2, work_long);
    for (int i = 0; i < 40; i++) {
        const uint32_t before[] = {fake.looks[0], fake.looks[1]};
        sl_clock_advance(i % 4 ? SL_WORLD_SECOND / 2 : 100 * SL_WORLD_SECOND);
        AWAIT(fake.looks[0] != before[0] && fake.looks[1] != before[1]);
    }
    ck_assert(!nodes[0].over && !nodes[1].over);
    release = true;
    pthread_join(nodes[1].thread, NULL);
    ck_assert_int_eq(nodes[1].rc, SL_EIO);
    ck_assert_str_eq(nodes[1].message, "the drive is gone");
    fake_nodes_advance(nodes, 2, 0);
    fake_nodes_join(nodes, 2);
    assert_part(nodes[0].message, "leaving the other nodes: host b (rank 1) was not heard of");
}

TEST(a_signal_ends_a_wait_and_names_who_is_waited_for)
{
    sl_interrupt_catch();
    fake_nodes_start(nodes, 2, freeze_second);
    AWAIT(fake.looks[0]);
    raise(SIGTERM);
    pthread_join(nodes[0].thread, NULL);
    ck_assert_int_eq(nodes[0].rc, SL_EABORTED);
    assert_part(nodes[0].message, "while it waited for host b (rank 1)");
    release = true;
    fake_nodes_join(&nodes[1], 1);
}

TEST(another_protocol_is_named_by_host_and_version)
{
    struct {
        uint32_t protocol;
        char version[28], host[SL_WORLD_HOST_BYTES];
    } hello = {.protocol = 7, .version = "9.9.9", .host = "b"};
    struct sl_world_request request;
    fake_rank = 1;
    fake_send(0, SL_WORLD_TAG_DATA, &hello, sizeof hello, &request);
    fake.size = 2;
    nodes[0] = (struct fake_node){.host = "a", .body = around};
    fake_node_run(&nodes[0]);
    ck_assert_int_eq(nodes[0].rc, SL_EPROTO);
    assert_part(nodes[0].message, "host b (rank 1) runs sluice 9.9.9, which speaks protocol 7");
}

static _Atomic bool gave_up;

static void note_giving_up(const char *sentence)
{
    assert_part(sentence,
                "meeting the other nodes: a call of MPI did not return for 1 s on host a");
    gave_up = true;
    fake.blocks = false;
}

TEST(a_call_of_mpi_that_does_not_return_is_given_up)
{
    struct sl_world w;
    const struct sl_world_spec spec = {.table = &FAKE_TABLE,
                                       .host = "a",
                                       .launcher = {.variable = "PMI_SIZE", .size = 1},
                                       .give_up = note_giving_up,
                                       .start_s = 1};
    char said[1024] = "";
    int ends[2];
    fake.size = 1;
    fake.blocks = true;
    ck_assert_int_eq(pipe(ends), 0);
    const int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    const int rc = sl_world_open(&w, &spec);
    dup2(kept, STDERR_FILENO);
    close(ends[1]);
    ck_assert_int_eq(rc, SL_OK);
    ck_assert(gave_up);
    // Before: its name, by which the nodes that have not come can be told.
    ck_assert_int_gt(read(ends[0], said, sizeof said - 1), 0);
    assert_part(said, "host a (rank 0) has come, and MPI waits for other nodes");
    ck_assert_int_eq(sl_world_close(&w), SL_OK);
    sl_world_fini(&w);
}

TEST(mpi_is_not_started_where_it_cannot_find_the_others)
{
    struct sl_world w;
    const struct sl_world_spec spec = {
        .table = &FAKE_TABLE,
        .host = "a",
        .launcher = {.variable = "SLURM_NTASKS", .size = 2, .no_pmi = true},
        .give_up = fake_give_up};
    fake.size = 2;
    ck_assert_int_eq(sl_world_open(&w, &spec), SL_EINVAL);
    assert_part(sl_error_message(), "srun --mpi=pmix");
    ck_assert(!w.watched);
    sl_world_abort(&w, 1);
    ck_assert_uint_eq(fake.closes + fake.aborts, 0);
    sl_world_fini(&w);
}

TEST(a_world_of_another_size_than_the_launchers_is_left)
{
    struct sl_world w;
    const struct sl_world_spec spec = {.table = &FAKE_TABLE,
                                       .host = "a",
                                       .launcher = {.variable = "SLURM_NTASKS", .size = 4},
                                       .give_up = fake_give_up};
    fake.size = 1;
    ck_assert_int_eq(sl_world_open(&w, &spec), SL_EINVAL);
    assert_part(sl_error_message(), "4 processes (SLURM_NTASKS)");
    assert_part(sl_error_message(), "srun --mpi=pmix");
    ck_assert_uint_eq(fake.closes, 1);
    sl_world_abort(&w, 1);
    ck_assert_uint_eq(fake.aborts, 0);
    sl_world_fini(&w);
}

RUN_TESTS(.timeout_s = AWAIT_CASE_S)
