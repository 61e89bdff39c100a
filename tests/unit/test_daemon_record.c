// What of a job survives its daemon: one file a job, whole or not at all.
#include "broker/daemon/record.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/base/log.h"
#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

static void quiet(void)
{
    dir_begin();
    sl_log_set_level(SL_LOG_ERROR);
}

static struct sl_entry *numbered(const char *name, uint64_t number)
{
    struct sl_entry *e = make_entry(name, "0-2,9");
    e->number = number;
    snprintf(e->id, sizeof e->id, "%llu", (unsigned long long)number);
    return e;
}

TEST(everything_that_matters_comes_back)
{
    struct sl_entry *e = numbered("a", 7), *back;
    e->state = SL_ENTRY_PAUSED;
    e->gpus = cores_of("1,63");
    e->order = -3;
    e->started = 1732180000.123;
    e->ended = 0;
    e->exit_status = 130;
    e->resumes = e->stopping = e->was_paused = e->began = true;
    e->resumed = 4;
    e->stuck = 2;
    e->pid = 4711;
    e->pid_start = 123456789012;
    snprintf(e->boot, sizeof e->boot, "a1b2-c3");
    e->report = strdup("/r/report.json");
    snprintf(e->message, sizeof e->message, "why \"it\"\n\tis so");
    snprintf(e->reached, sizeof e->reached, "000000000012");
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    ck_assert_int_eq(sl_record_read(in_dir("7.json"), &back), SL_OK);
    ck_assert_uint_eq(back->number, 7);
    ck_assert_str_eq(back->id, "7");
    ck_assert_str_eq(back->name, "a");
    ck_assert_str_eq(back->output, e->output);
    ck_assert_mem_eq(&back->cores, &e->cores, sizeof e->cores);
    ck_assert_mem_eq(&back->gpus, &e->gpus, sizeof e->gpus);
    ck_assert_int_eq(back->state, SL_ENTRY_PAUSED);
    ck_assert_int_eq(back->order, -3);
    ck_assert_double_eq(back->started, e->started);
    ck_assert_int_eq(back->exit_status, 130);
    ck_assert(back->resumes && back->stopping && back->was_paused && back->began);
    ck_assert_uint_eq(back->resumed, 4);
    ck_assert_uint_eq(back->stuck, 2);
    ck_assert_int_eq(back->pid, 4711);
    ck_assert_uint_eq(back->pid_start, 123456789012);
    ck_assert_str_eq(back->boot, "a1b2-c3");
    ck_assert_str_eq(back->report, "/r/report.json");
    ck_assert_ptr_null(back->checkpoint);
    ck_assert_str_eq(back->message, e->message);
    ck_assert_str_eq(back->reached, "000000000012");
    // A number with more digits than a double has.
    ck_assert_str_eq(back->config_json, "{\"seed\": 18446744073709551615}");
    sl_entry_free(back);
    sl_entry_free(e);
}

// Writes the entry and reads it again, without some of its keys.
static struct sl_entry *back_without(const struct sl_entry *e, const char *const *keys, int n)
{
    char path[300], text[8192];
    struct sl_entry *back;
    snprintf(path, sizeof path, "%s/%s.json", dir, e->id);
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    FILE *f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cJSON *whole = cJSON_Parse(text);
    for (int i = 0; i < n; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(whole, keys[i]);
    char *less = cJSON_Print(whole);
    write_text(path, less);
    free(less);
    cJSON_Delete(whole);
    ck_assert_int_eq(sl_record_read(path, &back), SL_OK);
    return back;
}

TEST(how_far_it_came_comes_back)
{
    struct sl_entry *e = numbered("a", 1);
    e->live.any = true;
    e->live.epoch = 2;
    e->live.progress = 1;
    e->live.loss = 1.5;
    struct sl_entry *back = back_without(e, NULL, 0);
    ck_assert(back->live.any);
    ck_assert_uint_eq(back->live.epoch, 2);
    ck_assert_double_eq(back->live.progress, 1);
    ck_assert_double_eq(back->live.loss, 1.5);
    sl_entry_free(back);

    e->live.loss = NAN; // nothing was trained yet
    back = back_without(e, NULL, 0);
    ck_assert(back->live.any);
    ck_assert_double_nan(back->live.loss);
    sl_entry_free(back);

    e->live.any = false;
    back = back_without(e, NULL, 0);
    ck_assert(!back->live.any);
    ck_assert_double_nan(back->live.loss);
    sl_entry_free(back);
    sl_entry_free(e);
}

TEST(a_record_of_an_older_daemon_is_as_good)
{
    static const char *const newer[] = {"boot", "came_to", "began"};
    struct sl_entry *e = numbered("a", 1);
    snprintf(e->boot, sizeof e->boot, "a1b2-c3");
    e->live.any = e->began = true;
    e->pid = 4711;
    struct sl_entry *back = back_without(e, newer, 3);
    ck_assert_str_eq(back->name, "a");
    ck_assert_int_eq(back->pid, 4711);
    ck_assert_str_eq(back->boot, "");
    ck_assert(!back->live.any && !back->began);
    sl_entry_free(back);
    back = back_without(e, newer + 2, 1);
    ck_assert(back->began); // since it came somewhere
    sl_entry_free(back);
    sl_entry_free(e);
}

TEST(a_new_number_is_above_all_that_is_there)
{
    static const struct {
        const char *name;
        unsigned long long last;
    } left[] = {{"4.json.damaged", 4},
                {"7.log", 7},
                {"9.json.damaged", 9},
                {"12.txt", 9},
                {"log", 9},
                {".json", 9},
                {"99999999999999999999.log", 9},
                {"13.json.old", 9},
                {"11.log", 11}};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        struct sl_registry r = {0};
        write_text(in_dir(left[i].name), "");
        ck_assert_int_eq(sl_record_read_all(dir, &r), SL_OK);
        ck_assert_msg(r.last_number == left[i].last, "%s: %llu", left[i].name,
                      (unsigned long long)r.last_number);
        ck_assert_uint_eq(r.n_damaged, i < 2 ? 1 : 2);
        sl_registry_fini(&r);
    }
}

TEST(all_of_a_directory_are_read)
{
    struct sl_registry r = {0};
    struct sl_entry *a = numbered("a", 12), *b = numbered("b", 3);
    ck_assert_int_eq(sl_record_write(dir, a), SL_OK);
    ck_assert_int_eq(sl_record_write(dir, b), SL_OK);
    write_text(in_dir("12.log"), "said");
    write_text(in_dir("notes.json"), "not ours");
    write_text(in_dir(".3.json.99-1.tmp"), "{");
    ck_assert_int_eq(sl_record_read_all(dir, &r), SL_OK);
    ck_assert_uint_eq(r.n, 2);
    ck_assert_str_eq(r.entries[0]->name, "b");
    ck_assert_str_eq(r.entries[1]->name, "a");
    ck_assert_uint_eq(r.last_number, 12);
    ck_assert_int_ne(access(in_dir(".3.json.99-1.tmp"), F_OK), 0);
    ck_assert_int_eq(access(in_dir("notes.json"), F_OK), 0);
    sl_record_remove(dir, r.entries[1]);
    ck_assert_int_ne(access(in_dir("12.json"), F_OK), 0);
    ck_assert_int_ne(access(in_dir("12.log"), F_OK), 0);
    sl_registry_fini(&r);
    sl_entry_free(a);
    sl_entry_free(b);
}

static void damage(const char *name, const char *text)
{
    struct sl_registry r = {0};
    char aside[600];
    write_text(in_dir(name), text);
    ck_assert_int_eq(sl_record_read_all(dir, &r), SL_OK);
    ck_assert_uint_eq(r.n, 0);
    snprintf(aside, sizeof aside, "%s.damaged", in_dir(name));
    ck_assert_msg(access(aside, F_OK) == 0, "%s was believed or lost: %s", name, text);
    ck_assert_int_ne(access(in_dir(name), F_OK), 0);
    ck_assert_uint_eq(r.n_damaged, strtoul(name, NULL, 10)); // with those of before
    ck_assert_uint_eq(r.last_number, strtoul(name, NULL, 10));
    sl_registry_fini(&r);
}

TEST(a_damaged_record_is_set_aside)
{
    damage("1.json", "");
    damage("2.json", "{");
    damage("3.json", "[]");
    damage("4.json", "{\"schema\": \"sluice.record/9\"}");
    damage("5.json", "{\"schema\": \"sluice.record/1\", \"id\": \"5\"}");
}

// Every key once without it, and with a value of another kind.
TEST(a_record_without_one_of_its_keys_is_none)
{
    struct sl_entry *e = numbered("a", 1), *back;
    char path[300];
    snprintf(path, sizeof path, "%s", in_dir("1.json"));
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    FILE *f = fopen(path, "r");
    char text[8192];
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cJSON *whole = cJSON_Parse(text);
    for (const cJSON *item = whole->child; item; item = item->next) {
        bool optional = strcmp(item->string, "boot") == 0 || strcmp(item->string, "began") == 0;
        for (int other = optional; other < 2; other++) {
            cJSON *less = cJSON_Duplicate(whole, true);
            cJSON_DeleteItemFromObjectCaseSensitive(less, item->string);
            if (other)
                cJSON_AddArrayToObject(less, item->string);
            char *cut = cJSON_Print(less);
            write_text(path, cut);
            ck_assert_msg(sl_record_read(path, &back) == SL_EFORMAT, "without %s", item->string);
            ck_assert_ptr_null(back);
            free(cut);
            cJSON_Delete(less);
        }
    }
    cJSON_Delete(whole);
    sl_entry_free(e);
}

TEST(cut_off_anywhere_it_is_never_believed_by_half)
{
    struct sl_entry *e = numbered("a", 1), *back;
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    struct stat st;
    ck_assert_int_eq(stat(in_dir("1.json"), &st), 0);
    for (off_t n = st.st_size - 2; n >= 0; n -= 7) {
        ck_assert_int_eq(truncate(in_dir("1.json"), n), 0);
        ck_assert_int_eq(sl_record_read(in_dir("1.json"), &back), SL_EFORMAT);
    }
    sl_entry_free(e);
}

TEST(a_copy_under_another_number_is_no_second_job)
{
    struct sl_registry r = {0};
    struct sl_entry *e = numbered("a", 1);
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    ck_assert_int_eq(rename(in_dir("1.json"), in_dir("2.json")), 0);
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    ck_assert_int_eq(sl_record_read_all(dir, &r), SL_OK);
    ck_assert_uint_eq(r.n, 1);
    ck_assert_str_eq(r.entries[0]->id, "1");
    ck_assert_int_eq(access(in_dir("2.json.damaged"), F_OK), 0);
    sl_registry_fini(&r);
    sl_entry_free(e);
}

TEST(a_pipe_or_a_link_is_no_record)
{
    struct sl_entry *back;
    ck_assert_int_eq(mkfifo(in_dir("1.json"), 0600), 0);
    ck_assert_int_eq(sl_record_read(in_dir("1.json"), &back), SL_EFORMAT); // and does not wait
    ck_assert_int_eq(symlink("/etc/passwd", in_dir("2.json")), 0);
    ck_assert_int_lt(sl_record_read(in_dir("2.json"), &back), 0);
}

// What cannot be read now may be read tomorrow: it is not set aside.
TEST(a_record_is_not_blamed_for_a_lack_of_descriptors)
{
    struct sl_registry r = {0};
    struct rlimit before, limit;
    struct sl_entry *e = numbered("a", 1);
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    int next = dup(0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 1; // the directory's
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int rc = sl_record_read_all(dir, &r);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(rc, SL_EIO);
    ck_assert_int_eq(access(in_dir("1.json"), F_OK), 0);
    ck_assert_int_eq(sl_record_read_all(dir, &r), SL_OK);
    ck_assert_uint_eq(r.n, 1);
    sl_registry_fini(&r);
    sl_entry_free(e);
}

TEST(a_full_disk_leaves_the_old_record)
{
    struct sl_entry *e = numbered("a", 1), *back;
    ck_assert_int_eq(sl_record_write(dir, e), SL_OK);
    const struct rlimit none = {.rlim_cur = 16, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    e->state = SL_ENTRY_DONE;
    ck_assert_int_eq(sl_record_write(dir, e), SL_EIO);
    ck_assert_int_eq(sl_record_read(in_dir("1.json"), &back), SL_OK);
    ck_assert_int_eq(back->state, SL_ENTRY_QUEUED);
    sl_entry_free(back);
    sl_entry_free(e);
}

RUN_TESTS(.setup = quiet, .teardown = dir_end, .timeout_s = 60)
