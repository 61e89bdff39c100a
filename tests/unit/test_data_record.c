// What one process has validated and others open: each file is compared, and watched.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/data/dataset.h"
#include "common/data/dataset_fault.h"
#include "common/data/stripes.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static char *validate(void)
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    char *record = sl_dataset_record(&ds);
    ck_assert_ptr_nonnull(record);
    sl_dataset_close(&ds);
    return record;
}

static int open_recorded(const char *record, struct sl_dataset *ds)
{
    return sl_dataset_open_recorded(dir, SL_NEED_TRAINING, record, 1, ds);
}

// Refused, with the name of the file and what is different.
static void refused(const char *record, const char *file, const char *difference)
{
    struct sl_dataset ds;
    ck_assert_int_eq(open_recorded(record, &ds), SL_ECHANGED);
    assert_message_has(in_dir(file));
    assert_message_has(difference);
    assert_message_has("since it was checked");
    ck_assert_ptr_null(ds.files);
}

// The last byte of a file becomes another one, in the same file.
static void write_last_byte(const char *name)
{
    FILE *f = fopen(in_dir(name), "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, -1, SEEK_END);
    const int byte = fgetc(f);
    fseek(f, -1, SEEK_END);
    fputc(byte ^ 1, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void set_times_of(const char *name, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    ck_assert_int_eq(utimensat(AT_FDCWD, in_dir(name), times, 0), 0);
}

static void make_older(const char *name)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, in_dir(name), times, 0), 0);
}

static const char *const names[] = {"indptr.npy",    "indices.npy",    "edge_weight.npy",
                                    "node_feat.npy", "node_label.npy", "train_idx.npy",
                                    "val_idx.npy",   "test_idx.npy",   "vertex_map.npy"};

static void with_all_files(void)
{
    tiny_begin();
    WRITE_I32("vertex_map.npy", 4, 0, 3, 1, 2);
}

TEST(who_is_handed_a_record_knows_what_was_found)
{
    struct sl_dataset ds;
    char *record = validate();
    must(open_recorded(record, &ds));
    ck_assert_uint_eq(ds.max_degree, 3);
    ck_assert(ds.loop_free);
    ck_assert(ds.lists_rise);
    ck_assert_uint_eq(ds.feat_checked, 15 * sizeof(float));
    ck_assert(!ds.validated_now);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 2);
    char *again = sl_dataset_record(&ds);
    ck_assert_str_eq(again, record); // and may hand it on
    free(again);
    sl_dataset_close(&ds);
    free(record);
}

LOOP_TEST(a_file_in_the_place_of_another_is_refused, 0, SL_COUNT_OF(names))
{
    char *record = validate();
    struct stat st;
    must(stat(in_dir(names[_i]), &st));
    ck_assert_int_eq(rename(in_dir(names[_i]), in_dir("other")), 0);
    char command[2300];
    snprintf(command, sizeof command, "cp -p %s %s", in_dir("other"), in_dir(names[_i]));
    ck_assert_int_eq(system(command), 0); // the same contents and times
    refused(record, names[_i], "was replaced");
    ck_assert_int_eq(rename(in_dir("other"), in_dir(names[_i])), 0);
    struct sl_dataset ds;
    must(open_recorded(record, &ds)); // it itself again
    sl_dataset_close(&ds);
    free(record);
}

LOOP_TEST(another_size_is_refused, 0, SL_COUNT_OF(names))
{
    char *record = validate();
    struct stat st;
    must(stat(in_dir(names[_i]), &st));
    ck_assert_int_eq(truncate(in_dir(names[_i]), st.st_size - 1), 0);
    set_times_of(names[_i], &st);
    refused(record, names[_i], "was changed");
    free(record);
}

LOOP_TEST(another_time_of_writing_is_refused, 0, SL_COUNT_OF(names))
{
    char *record = validate();
    make_older(names[_i]);
    refused(record, names[_i], "was written to");
    free(record);
}

// Links, names and permissions are no contents.
LOOP_TEST(another_ctime_is_none, 0, SL_COUNT_OF(names))
{
    struct sl_dataset ds;
    char *record = validate();
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    must(sl_dataset_hold(&ds));
    ck_assert_int_eq(chmod(in_dir(names[_i]), 0400), 0);
    ck_assert_int_eq(link(in_dir(names[_i]), in_dir("backup")), 0);
    must(sl_dataset_check_held(&ds));
    sl_dataset_close(&ds);
    must(open_recorded(record, &ds));
    sl_dataset_close(&ds);
    free(record);
}

// Times that were set back show nothing, but headers and ends of files are looked at.
TEST(other_contents_of_the_same_time_are_refused)
{
    char *record = validate();
    struct stat st;
    must(stat(in_dir("indices.npy"), &st));
    write_last_byte("indices.npy");
    set_times_of("indices.npy", &st);
    struct sl_dataset ds;
    ck_assert_int_eq(open_recorded(record, &ds), SL_ECHANGED);
    assert_message_has("digest");
    free(record);
}

TEST(other_metadata_is_refused)
{
    char *record = validate();
    write_text("metadata.json", "{\"num_nodes\": 6, \"num_edges\": 7}"); // not "wanted 7 elements"
    refused(record, "metadata.json", "was changed");
    free(record);
}

TEST(a_file_that_is_gone_is_named)
{
    struct sl_dataset ds;
    char *record = validate();
    ck_assert_int_eq(unlink(in_dir("val_idx.npy")), 0); // which a data set may do without
    ck_assert_int_eq(open_recorded(record, &ds), SL_ENOENT);
    assert_message_has(in_dir("val_idx.npy"));
    free(record);
}

TEST(a_file_that_nobody_has_checked_is_not_opened)
{
    struct sl_dataset ds;
    ck_assert_int_eq(unlink(in_dir("val_idx.npy")), 0);
    char *record = validate();
    WRITE_I64("val_idx.npy", 77);
    must(open_recorded(record, &ds));
    ck_assert_uint_eq(ds.split[SL_SPLIT_VAL].n, 0);
    sl_dataset_close(&ds);
    free(record);
}

TEST(a_damaged_record_is_refused)
{
    struct sl_dataset ds;
    char *record = validate();
    ck_assert_int_eq(open_recorded("", &ds), SL_EFORMAT);
    record[strlen(record) / 2] = '\0';
    ck_assert_int_eq(open_recorded(record, &ds), SL_EFORMAT);
    assert_message_has("record");
    free(record);
}

// ---- stripes ------------------------------------------------------------------------------------

// Five rows of three numbers in one file: all fit into its first unit.
static void write_stripe(const char *name, uint64_t set)
{
    static const float feat[15] = {1};
    static char block[SL_STRIPE_HEAD_BYTES + sizeof feat];
    const struct sl_stripe_head head = {.version = SL_STRIPE_VERSION,
                                        .n = 1,
                                        .dtype = SL_DTYPE_F32,
                                        .set = set,
                                        .unit_bytes = sl_stripes_unit(12, 1),
                                        .rows = 5,
                                        .columns = 3};
    memcpy(block, &head, sizeof head);
    memcpy(block, sl_stripe_magic, sizeof sl_stripe_magic);
    memcpy(block + SL_STRIPE_HEAD_BYTES, feat, sizeof feat);
    write_file(name, block, sizeof block);
}

TEST(a_stripe_is_compared_too)
{
    struct sl_dataset ds;
    write_text("metadata.json",
               "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, \"num_classes\": 2, "
               "\"feat_stripes\": {\"files\": [\"feat.0\"]}}");
    ck_assert_int_eq(unlink(in_dir("node_feat.npy")), 0);
    write_stripe("feat.0", 1);
    char *record = validate();
    must(open_recorded(record, &ds));
    must(sl_dataset_hold(&ds));
    make_older("feat.0");
    ck_assert_int_eq(sl_dataset_check_held(&ds), SL_ECHANGED);
    assert_message_has(in_dir("feat.0"));
    sl_dataset_close(&ds);
    refused(record, "feat.0", "was written to");
    ck_assert_int_eq(rename(in_dir("feat.0"), in_dir("old")), 0);
    write_stripe("feat.0", 1);
    refused(record, "feat.0", "was replaced");
    free(record);
}

// ---- in place -----------------------------------------------------------------------------------

LOOP_TEST(a_held_file_that_is_written_to_is_found, 0, SL_COUNT_OF(names))
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    must(sl_dataset_check_held(&ds)); // nothing is held yet
    must(sl_dataset_hold(&ds));
    must(sl_dataset_check_held(&ds));
    write_last_byte(names[_i]);
    make_older(names[_i]); // whatever the clock's tick
    ck_assert_int_eq(sl_dataset_check_held(&ds), SL_ECHANGED);
    assert_message_has(in_dir(names[_i]));
    sl_dataset_close(&ds);
}

TEST(a_held_file_that_is_replaced_is_the_same)
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    must(sl_dataset_hold(&ds));
    WRITE_I32("indices.npy", 1, 1, 1, 1, 1, 1, 1); // written aside and renamed
    must(sl_dataset_check_held(&ds));
    sl_dataset_close(&ds);
}

TEST(what_was_replaced_before_it_is_held_is_refused)
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    WRITE_I32("indices.npy", 1, 1, 1, 1, 1, 1, 1);
    ck_assert_int_eq(sl_dataset_hold(&ds), SL_ECHANGED);
    assert_message_has(in_dir("indices.npy"));
    sl_dataset_close(&ds);
}

// ---- SIGBUS -------------------------------------------------------------------------------------

// A process that reads a file behind its new end, of a data set or another one; what it says goes
// to *said, its end is returned.
static int read_behind_the_end(bool other, char *said, size_t bytes)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct sl_dataset ds;
        dup2(ends[1], STDERR_FILENO);
        sl_dataset_name_faults("reader");
        must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 1, &ds));
        if (other) {
            const int fd = memfd_create("nothing", 0);
            _exit(*(const volatile char *)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
        }
        must(truncate(in_dir("node_label.npy"), 0));
        _exit(((const volatile int32_t *)ds.label)[2]);
    }
    int status;
    close(ends[1]);
    const ssize_t n = read(ends[0], said, bytes - 1);
    said[SL_MAX(n, 0)] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(a_file_that_ends_too_early_is_named_by_whoever_dies_of_it)
{
    char said[4096], wanted[1200];
    const int status = read_behind_the_end(false, said, sizeof said);
    snprintf(wanted, sizeof wanted, "reader: %s: was made shorter", in_dir("node_label.npy"));
    ck_assert_msg(strncmp(said, wanted, strlen(wanted)) == 0, "found: %s", said);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

TEST(shared_memory_without_room_is_told_by_whoever_dies_of_it)
{
    char said[4096];
    const int status = read_behind_the_end(true, said, sizeof said);
    ck_assert_msg(strncmp(said, "reader: a page", 14) == 0 && strstr(said, "/dev/shm"), "found: %s",
                  said);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

TEST(a_signal_that_was_sent_kills_as_ever)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        sl_dataset_name_faults("reader");
        kill(getpid(), SIGBUS);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

RUN_TESTS(.setup = with_all_files, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
