// What nodes have, compared; what their launcher says; what an MPI has left.
#include "nodes/facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "nodes/launcher.h"
#include "nodes/leftovers.h"
#include "nodes/room.h"
#include "tests/unit/fake_root.h"
#include "tests/unit/suite.h"

static void must(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

// ---- comparing ----------------------------------------------------------------------------------

static const char *const hosts[] = {"a", "b", "c"};
static struct sl_facts facts[3];
static struct sl_node_notes notes;

static void compare(const char *const *wanted)
{
    must(sl_facts_compare(hosts, facts, 3, &notes));
    for (size_t i = 0; i < notes.n; i++) {
        ck_assert_ptr_nonnull(wanted[i]);
        ck_assert_msg(strncmp(notes.note[i].text, wanted[i], strlen(wanted[i])) == 0,
                      "wanted '%s' in '%s'", wanted[i], notes.note[i].text);
    }
    ck_assert_msg(!wanted[notes.n], "not said: %s", wanted[notes.n]);
    sl_node_notes_fini(&notes);
    for (int i = 0; i < 3; i++)
        sl_facts_fini(&facts[i]);
}

TEST(facts_are_the_same_after_the_wire)
{
    struct sl_facts had = {0}, got = {0};
    must(sl_facts_add(&had, SL_FACT_DATA, "indices.npy", "%d\tbytes\nand more", 8));
    must(sl_facts_add(&had, SL_FACT_JOB, "", "7"));
    char *text = sl_facts_write(&had);
    must(sl_facts_read(&got, text));
    ck_assert_uint_eq(got.n, 2);
    ck_assert_int_eq(got.fact[0].kind, SL_FACT_DATA);
    ck_assert_str_eq(got.fact[0].name, "indices.npy");
    ck_assert_str_eq(got.fact[0].value, "8 bytes and more");
    ck_assert_int_eq(got.fact[1].kind, SL_FACT_JOB);
    ck_assert_int_eq(sl_facts_read(&got, "nonsense\n"), SL_EFORMAT);
    ck_assert_int_eq(sl_facts_read(&got, "of a newer sluice\t\t1\n"), SL_OK);
    free(text);
    sl_facts_fini(&had);
    sl_facts_fini(&got);
}

TEST(what_most_have_is_wanted)
{
    for (int i = 0; i < 3; i++)
        must(sl_facts_add(&facts[i], SL_FACT_ISA, "", "%s", i == 0 ? "avx2" : "amx"));
    compare((const char *[]){"a: instruction set: found avx2, wanted amx, as on b: ", NULL});
}

TEST(of_two_as_frequent_that_of_the_first_is_wanted)
{
    for (int i = 0; i < 3; i++)
        must(sl_facts_add(&facts[i], SL_FACT_JOB, "", "%d", i));
    compare((const char *[]){"b: job file: found 1, wanted 0, as on a",
                             "c: job file: found 2, wanted 0, as on a", NULL});
}

TEST(a_file_that_is_missing_or_there_on_one_node_alone_is_found)
{
    must(sl_facts_add(&facts[0], SL_FACT_DATA, "x", "1"));
    must(sl_facts_add(&facts[1], SL_FACT_DATA, "x", "1"));
    must(sl_facts_add(&facts[2], SL_FACT_DATA, "y", "1"));
    compare((const char *[]){"c: data set x: found nothing, wanted 1, as on a",
                             "c: data set y: found 1, wanted nothing, as on a", NULL});
}

TEST(a_node_that_could_not_look_says_only_why)
{
    must(sl_facts_add(&facts[0], SL_FACT_JOB, "", "1"));
    must(sl_facts_add(&facts[1], SL_FACT_PROBLEM, "", "no such file"));
    must(sl_facts_add(&facts[2], SL_FACT_JOB, "", "1"));
    compare((const char *[]){"b: no such file", NULL});
}

// ---- the launcher -------------------------------------------------------------------------------

static void forget(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",     "PMI_RANK",
        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",         "SLURM_PROCID", "PMIX_RANK"};
    for (size_t i = 0; i < SL_COUNT_OF(names); i++)
        unsetenv(names[i]);
}

static const struct {
    const char *set[4]; // name, value, ...
    uint32_t world;     // as MPI finds it
    const char *said;   // NULL: all is well
} launches[] = {
    {{0}, 1, "no launcher started this process"},
    {{"OMPI_COMM_WORLD_SIZE", "2", "SLURM_NTASKS", "8"}, 2, NULL},
    {{"PMI_SIZE", "2"}, 1, "2 processes (PMI_SIZE), but MPI 1 finds a world of 1"},
    {{"PMI_SIZE", "1"}, 1, NULL},
    {{"SLURM_NTASKS", "4"}, 4, "4 processes (SLURM_NTASKS), but has not told MPI of them"},
    {{"SLURM_NTASKS", "4", "PMIX_RANK", "0"},
     1,
     "finds a world of 1 (this is rank 0 of it): start "
     "them with 'srun --mpi=pmix'"},
    {{"SLURM_NTASKS", "4", "PMIX_RANK", "0"}, 4, NULL},
    {{"SLURM_NTASKS", "4", "SLURM_STEP_NUM_TASKS", "2"}, 2, "2 processes (SLURM_STEP_NUM_TASKS)"},
    {{"SLURM_NTASKS", "4", "SLURM_STEP_NUM_TASKS", "1"}, 1, NULL},
    {{"SLURM_NTASKS", "4", "PMI_SIZE", "2"}, 2, NULL},
    {{"PMIX_RANK", "3"}, 1, "this is process 3"},
    {{"PMIX_RANK", "3"}, 4, NULL},
    {{"PMI_SIZE", "many"}, 4, "PMI_SIZE is 'many': wanted a number"},
};

CASE(.setup = forget)

LOOP_TEST(worlds_of_another_size_than_the_launchers_are_refused, 0, SL_COUNT_OF(launches))
{
    struct sl_launcher launcher;
    const char *said = launches[_i].said;
    for (int k = 0; k < 4 && launches[_i].set[k]; k += 2)
        setenv(launches[_i].set[k], launches[_i].set[k + 1], 1);
    int rc = sl_launcher_read(&launcher);
    if (rc == SL_OK)
        rc = sl_launcher_check_pmi(&launcher);
    if (rc == SL_OK)
        rc = sl_launcher_check(&launcher, launches[_i].world, 0, "MPI 1");
    ck_assert_int_eq(rc, said ? SL_EINVAL : SL_OK);
    if (said)
        ck_assert_msg(strstr(sl_error_message(), said), "%s", sl_error_message());
}

CASE(.setup = forget)

TEST(how_many_processes_a_launcher_started_and_which_this_is)
{
    uint32_t rank = 7;
    ck_assert_uint_eq(sl_launcher_size(&rank), 1); // there is none
    ck_assert_uint_eq(rank, 0);
    setenv("SLURM_NTASKS", "4", 1); // the batch script: one process, whatever was asked for
    setenv("SLURM_PROCID", "0", 1);
    ck_assert_uint_eq(sl_launcher_size(&rank), 4);
    ck_assert(sl_launcher_is_batch());
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    ck_assert_uint_eq(sl_launcher_size(&rank), 3);
    ck_assert_uint_eq(rank, 2);
    ck_assert(!sl_launcher_is_batch());
}

TEST(the_descriptor_of_a_launcher_gets_a_number_out_of_the_way)
{
    char number[16];
    int ends[2];
    unsetenv("PMI_FD");
    ck_assert_int_eq(sl_launcher_keep_descriptor(), -1);
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("PMI_FD", number, 1);
    const int kept = sl_launcher_keep_descriptor();
    ck_assert_int_ge(kept, 64);
    ck_assert_int_eq(atoi(getenv("PMI_FD")), kept);
    ck_assert_int_eq(write(kept, "x", 1), 1);
    ck_assert_int_eq(read(ends[0], number, 1), 1);
    close(kept);
    close(ends[0]);
    close(ends[1]);
}

// ---- leftovers ----------------------------------------------------------------------------------

CASE(.setup = make_root)

static const char *in_root(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void *map_file(const char *name)
{
    int fd = open(in_root(name), O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

// A folder in that of this host's sessions, or of another host's.
static void make_session(const char *host, const char *name)
{
    char folder[256], at[256 + 64], *end = folder + snprintf(folder, sizeof folder, "ompi.");
    if (host)
        strcpy(end, host);
    else
        gethostname(end, 100);
    end[strcspn(end, ".")] = '\0';
    strcat(end, ".0");
    mkdir(in_root(folder), 0700);
    snprintf(at, sizeof at, "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(in_root(at), 0700), 0);
}

static void make_session_of(const char *host, const char *format, pid_t pid)
{
    char name[64];
    snprintf(name, sizeof name, format, (int)pid);
    make_session(host, name);
}

static pid_t dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return pid;
}

// Of "3 files of MPI are left ...", or 0.
static int count_left(void)
{
    struct sl_facts f = {0};
    must(sl_leftovers_look(root, root, &f));
    const int n = f.n ? atoi(f.fact[0].value) : 0;
    ck_assert(f.n == 0 || f.fact[0].kind == SL_FACT_WARNING);
    sl_facts_fini(&f);
    return n;
}

TEST(what_dead_processes_have_left_is_counted_and_no_more)
{
    void *p = map_file("vader_segment.a.0.1.0");
    put("/a file of somebody else", "");
    make_session_of(NULL, "pid.%d", getpid());
    ck_assert_int_eq(count_left(), 0);
    munmap(p, 4096);
    ck_assert_int_eq(count_left(), 1);
    make_session_of(NULL, "pid.%d", dead_process());
    ck_assert_int_eq(count_left(), 2);
    remove_root();
}

TEST(memory_of_each_mpi_is_known_by_its_name)
{
    static const char *const names[] = {"sm_segment.a.1", "mpich_shar_tmpAbCdEf",
                                        "ucx_shm_posix_1f"};
    for (int i = 0; i < 3; i++) {
        munmap(map_file(names[i]), 4096);
        ck_assert_int_eq(count_left(), i + 1);
    }
    remove_root();
}

TEST(a_folder_with_too_little_room_is_named)
{
    struct sl_facts f = {0};
    must(sl_room_look_at(in_root(""), 0, &f));
    must(sl_room_look_at(in_root("/nowhere"), UINT64_MAX, &f));
    must(sl_room_look_at("/proc", UINT64_MAX, &f)); // no file system that has room
    ck_assert_uint_eq(f.n, 0);
    must(sl_room_look_at(in_root(""), UINT64_MAX, &f));
    ck_assert_uint_eq(f.n, 1);
    ck_assert_int_eq(f.fact[0].kind, SL_FACT_WARNING);
    ck_assert_ptr_nonnull(strstr(f.fact[0].value, root));
    sl_facts_fini(&f);
    remove_root();
}

TEST(a_session_of_another_nodes_mpirun_is_left_once_its_maker_is_dead)
{
    make_session(NULL, "jf.1");
    make_session(NULL, "jf.2");
    make_session(NULL, "jf.3");
    make_session_of(NULL, "jf.1/pmix_dstor_ds21_%d", getpid());
    make_session(NULL, "jf.2/1");
    make_session(NULL, "jf.3/pmix_dstor_");
    ck_assert_int_eq(count_left(), 0);
    make_session(NULL, "jf.4");
    make_session_of(NULL, "jf.4/pmix_dstor_ds12_%d", dead_process());
    ck_assert_int_eq(count_left(), 1);
    make_session_of("elsewhere", "pid.%d", dead_process());
    ck_assert_int_eq(count_left(), 1);
    siginfo_t ended;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT); // it has ended, and still has its number
    make_session_of(NULL, "pid.%d", pid);
    ck_assert_int_eq(count_left(), 2);
    waitpid(pid, NULL, 0);
    remove_root();
}

RUN_TESTS(.timeout_s = 20)
