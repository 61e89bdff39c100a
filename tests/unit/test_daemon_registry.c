// The jobs that a daemon knows: found by a word, kept apart, told as JSON.
#include "broker/daemon/registry.h"

#include <math.h>
#include <sched.h>

#include "tests/unit/daemon_fixture.h"
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"

static struct sl_registry registry;

static void begin(void)
{
    dir_begin();
    registry = (struct sl_registry){0};
}

static void end(void)
{
    sl_registry_fini(&registry);
    dir_end();
}

static void expect(const char *word, const struct sl_entry *want)
{
    struct sl_entry *found;
    ck_assert_msg(sl_registry_find(&registry, word, &found) == SL_OK, "%s", sl_error_message());
    ck_assert_ptr_eq(found, want);
}

static void says(const char *part)
{
    ck_assert_msg(strstr(sl_error_message(), part) != NULL, "'%s' is not in: %s", part,
                  sl_error_message());
}

TEST(numbers_are_given_in_turn_and_never_again)
{
    struct sl_entry *a = add_entry(&registry, "a", "0"), *b = add_entry(&registry, "b", "0");
    ck_assert_str_eq(a->id, "1");
    ck_assert_str_eq(b->id, "2");
    sl_registry_remove(&registry, b);
    ck_assert_str_eq(add_entry(&registry, "c", "0")->id, "3");
    // One that is read comes with its number.
    struct sl_entry *old = make_entry("old", "0");
    old->number = 2;
    ck_assert_int_eq(sl_registry_add(&registry, old), SL_OK);
    ck_assert_ptr_eq(registry.entries[1], old);
    ck_assert_ptr_eq(sl_registry_by_number(&registry, 2), old);
    ck_assert_ptr_null(sl_registry_by_number(&registry, 9));
}

TEST(a_job_is_found_by_id_name_and_directory)
{
    struct sl_entry *a = add_entry(&registry, "a", "0"), *b = add_entry(&registry, "1", "0");
    char slashed[SL_CONFIG_PATH_BYTES + 32];
    expect("1", a); // an id before a name
    expect("a", a);
    expect("2", b);
    expect(a->output, a); // it need not be there
    snprintf(slashed, sizeof slashed, "%s/", a->output);
    expect(slashed, a);
    ck_assert_int_eq(mkdir(b->output, 0700), 0);
    snprintf(slashed, sizeof slashed, "%s/../run-1/.", b->output);
    expect(slashed, b);
}

TEST(of_several_the_one_that_is_not_over_is_meant_else_the_newest)
{
    struct sl_entry *first = add_entry(&registry, "a", "0");
    struct sl_entry *second = add_entry(&registry, "a", "0");
    first->state = second->state = SL_ENTRY_DONE;
    expect("a", second);
    first->state = SL_ENTRY_RUNNING;
    expect("a", first);
}

TEST(an_unknown_job_names_the_nearest)
{
    struct sl_entry *found;
    ck_assert_int_eq(sl_registry_find(&registry, "x", &found), SL_ENOENT);
    says("no jobs");
    ck_assert_int_eq(sl_registry_find(&registry, "", &found), SL_EINVAL);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "other-%02d", i);
        add_entry(&registry, name, "0");
    }
    add_entry(&registry, "products", "0");
    ck_assert_int_eq(sl_registry_find(&registry, "prodcuts", &found), SL_ENOENT);
    says("the nearest are 21 'products' (queued)");
    ck_assert_ptr_null(found);
    // A word of any length.
    char *endless = calloc(1, 1 << 20);
    memset(endless, 'x', (1 << 20) - 1);
    ck_assert_int_eq(sl_registry_find(&registry, endless, &found), SL_ENOENT);
    free(endless);
}

TEST(names_and_directories_are_one_jobs_until_it_is_over)
{
    struct sl_entry *a = add_entry(&registry, "a", "0");
    struct sl_entry *b = make_entry("a", "1");
    ck_assert_int_eq(sl_registry_check_free(&registry, b), SL_EEXIST);
    says("job 1");
    snprintf(b->name, sizeof b->name, "b");
    ck_assert_int_eq(sl_registry_check_free(&registry, b), SL_EEXIST); // the directory
    says("output");
    strcat(b->output, "-too");
    ck_assert_int_eq(sl_registry_check_free(&registry, b), SL_OK);
    snprintf(b->name, sizeof b->name, "a");
    a->state = SL_ENTRY_FAILED;
    ck_assert_int_eq(sl_registry_check_free(&registry, b), SL_OK);
    a->orphan_until_ns = 1; // but its broker still saves
    ck_assert_int_eq(sl_registry_check_free(&registry, b), SL_EEXIST);
    ck_assert_int_eq(sl_registry_check_free(&registry, a), SL_OK); // itself does not count
    sl_entry_free(b);
}

TEST(a_daemon_takes_so_many_jobs_and_no_more)
{
    char name[32];
    for (int i = 0; i < SL_REGISTRY_WAITING_MAX; i++) {
        snprintf(name, sizeof name, "job-%d", i);
        add_entry(&registry, name, "0");
    }
    struct sl_entry *one = make_entry("one-more", "0");
    ck_assert_int_eq(sl_registry_check_free(&registry, one), SL_EAGAIN);
    registry.entries[500]->state = SL_ENTRY_STOPPED;
    ck_assert_int_eq(sl_registry_check_free(&registry, one), SL_OK);
    sl_entry_free(one);
}

TEST(orders_are_before_and_after_all_that_wait)
{
    ck_assert_int_eq(sl_registry_order_last(&registry), 0);
    struct sl_entry *a = add_entry(&registry, "a", "0"), *b = add_entry(&registry, "b", "0");
    ck_assert_int_gt(b->order, a->order);
    a->order = -5;
    ck_assert_int_lt(sl_registry_order_first(&registry), -5);
    a->state = SL_ENTRY_RUNNING; // does not wait any more
    ck_assert_int_gt(sl_registry_order_first(&registry), -5);
}

TEST(an_entry_says_why_it_waits)
{
    struct sl_entry *a = add_entry(&registry, "a", "0-1"), *b = add_entry(&registry, "b", "1");
    a->state = SL_ENTRY_INTERRUPTED;
    a->orphan_until_ns = 1;
    cJSON *j = sl_entry_json(&registry, b, "/state");
    ck_assert_str_eq(words(j, "why"), "waits for core 1, which job 1 'a' has");
    ck_assert_int_eq(at(j, "position")->valueint, 1);
    ck_assert_str_eq(words(j, "log"), "/state/2.log");
    cJSON_Delete(j);
    a->state = SL_ENTRY_QUEUED;
    a->orphan_until_ns = 0;
    j = sl_entry_json(&registry, b, "/state");
    ck_assert_str_eq(words(j, "why"), "waits for core 1, which job 1 'a' waits for "
                                      "longer");
    ck_assert_int_eq(at(j, "position")->valueint, 2);
    cJSON_Delete(j);
}

TEST(what_is_not_known_is_null)
{
    static const char *const null[] = {"started", "ended",    "exit_status", "message",
                                       "pid",     "epoch",    "progress",    "samplers",
                                       "loss",    "trainers", "seconds_left"};
    struct sl_entry *e = add_entry(&registry, "a", "0,2-3");
    cJSON *j = sl_entry_json(&registry, e, "/s");
    for (size_t i = 0; i < sizeof null / sizeof *null; i++)
        ck_assert_msg(cJSON_IsNull(at(j, null[i])), "%s", null[i]);
    ck_assert_str_eq(words(j, "cores"), "0,2-3");
    ck_assert_str_eq(words(j, "resume"), "never");
    cJSON_Delete(j);

    e->state = SL_ENTRY_RUNNING;
    e->live = (struct sl_entry_live){
        .any = true, .epoch = 2, .loss = NAN, .seconds_left = -1, .progress = 0.5};
    j = sl_entry_json(&registry, e, "/s");
    ck_assert_int_eq(at(j, "epoch")->valueint, 2);
    ck_assert(cJSON_IsNull(at(j, "loss")) && cJSON_IsNull(at(j, "seconds_left")));
    ck_assert(cJSON_IsNull(at(j, "position")) && cJSON_IsNull(at(j, "why")));
    cJSON_Delete(j);

    e->state = SL_ENTRY_INTERRUPTED; // it is over, but nothing has ended it
    e->exit_status = 130;
    e->ended = 5;
    j = sl_entry_json(&registry, e, "/s");
    ck_assert(cJSON_IsNull(at(j, "exit_status")));
    ck_assert_int_eq(at(j, "ended")->valueint, 5);
    cJSON_Delete(j);
}

// --- the job's text ------------------------------------------------------------------------------

static char text[4096];

static const struct sl_gpus none = {.report.problem = "there is none"};

static const char *config(const char *devices, const char *more)
{
    snprintf(text, sizeof text,
             "{\"name\": \"a\", \"dataset\": \"/data\", \"model\": {\"kind\": \"graphsage\", "
             "\"layers\": 1, \"hidden\": 8}, \"sampler\": {\"kind\": \"khop\", \"fanout\": [5], "
             "\"batch_size\": 8}, \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.1}, \"epochs\": 2, "
             "\"devices\": %s, \"output\": \"/out\"%s}",
             devices, more);
    return text;
}

static uint32_t a_core(void)
{
    struct sl_cores allowed;
    uint16_t list[1];
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    ck_assert_uint_eq(sl_cores_list(&allowed, list, 1), 1);
    return list[0];
}

TEST(a_jobs_text_says_what_it_needs)
{
    char devices[128], cores_text[32];
    uint32_t core = a_core();
    struct sl_entry *e = sl_entry_new();
    snprintf(devices, sizeof devices,
             "[{\"kind\": \"cpu\", \"cores\": \"%u\"}, {\"kind\": \"cpu\", \"cores\": \"%u\"}]",
             core, core);
    snprintf(cores_text, sizeof cores_text, "%u", core);
    const struct sl_cores all = cores_of(cores_text);
    ck_assert_msg(sl_entry_set_config(e, config(devices, ", \"resume\": \"auto\""), &all, NULL) ==
                      SL_OK,
                  "%s", sl_error_message());
    ck_assert_str_eq(e->name, "a");
    ck_assert_str_eq(e->output, "/out");
    ck_assert_uint_eq(e->n_devices, 2);
    ck_assert_uint_eq(e->epochs, 2);
    ck_assert(e->resumes);
    ck_assert_uint_eq(sl_cores_count(&e->cores), 1);
    sl_entry_free(e);
}

// Its broker settles them, with the data set.
TEST(epochs_that_are_auto_are_not_known_yet)
{
    char cores_text[32];
    struct sl_entry *e = sl_entry_new();
    snprintf(cores_text, sizeof cores_text, "%u", a_core());
    const struct sl_cores all = cores_of(cores_text);
    const char *job = config("\"cpu\"", "");
    char *at = strstr(text, "\"epochs\": 2, ");
    memset(at, ' ', strlen("\"epochs\": 2,"));
    ck_assert_msg(sl_entry_set_config(e, job, &all, NULL) == SL_OK, "%s", sl_error_message());
    ck_assert_uint_eq(e->epochs, 0);
    ck_assert_ptr_nonnull(strstr(e->config_json, "\"epochs\": \"auto\""));
    sl_entry_free(e);
}

TEST(auto_devices_are_the_daemons_cores)
{
    char cores_text[32];
    cpu_set_t before, after;
    struct sl_entry *e = sl_entry_new();
    snprintf(cores_text, sizeof cores_text, "%u", a_core());
    const struct sl_cores mine = cores_of(cores_text);
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    ck_assert_msg(sl_entry_set_config(e, config("\"auto\"", ""), &mine, &none) == SL_OK, "%s",
                  sl_error_message());
    ck_assert_mem_eq(&e->cores, &mine, sizeof mine);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
    sl_entry_free(e);
}

TEST(a_job_that_asks_for_gpus_is_taken_once_they_are_known)
{
    struct sl_cores all;
    struct sl_gpus two = {.report.n = 2};
    struct sl_entry *e = sl_entry_new();
    bool asks = false;
    ck_assert_int_eq(sl_cores_allowed(&all), SL_OK);
    ck_assert_int_eq(sl_entry_asks_for_gpus(config("\"cpu\"", ""), &asks), SL_OK);
    ck_assert(!asks);
    ck_assert_int_eq(sl_entry_asks_for_gpus(config("\"auto\"", ""), &asks), SL_OK);
    ck_assert(asks);
    ck_assert_int_eq(sl_entry_asks_for_gpus("{", &asks), SL_EFORMAT);
    config("[{\"kind\": \"cuda\", \"index\": 1}]", "");
    ck_assert_int_eq(sl_entry_asks_for_gpus(text, &asks), SL_OK);
    ck_assert(asks);
    ck_assert_int_eq(sl_entry_set_config(e, text, &all, NULL), SL_EAGAIN);
    ck_assert_int_eq(sl_entry_set_config(e, text, &all, &none), SL_EINVAL);
    for (uint32_t i = 0; i < two.report.n; i++)
        two.report.gpu[i] = (struct sl_gpu){.major = 9, .total_bytes = 1 << 30};
    ck_assert_msg(sl_entry_set_config(e, text, &all, &two) == SL_OK, "%s", sl_error_message());
    ck_assert(sl_cores_has(&e->gpus, 1) && sl_cores_count(&e->gpus) == 1);
    sl_entry_free(e);
}

TEST(a_core_of_somebody_else_is_refused)
{
    char devices[128];
    const struct sl_cores others = cores_of("1000");
    struct sl_entry *e = sl_entry_new();
    snprintf(devices, sizeof devices, "[{\"kind\": \"cpu\", \"cores\": \"%u\"}]", a_core());
    ck_assert_int_eq(sl_entry_set_config(e, config(devices, ""), &others, NULL), SL_EINVAL);
    says("wanted cores among 1000");
    ck_assert_ptr_null(e->config_json);
    sl_entry_free(e);
}

TEST(what_a_daemon_can_not_do_is_refused)
{
    struct sl_cores all;
    struct sl_entry *e = sl_entry_new();
    ck_assert_int_eq(sl_cores_allowed(&all), SL_OK);
    ck_assert_int_eq(sl_entry_set_config(e, "{", &all, NULL), SL_EFORMAT);
    ck_assert_int_lt(sl_entry_set_config(e, "", &all, NULL), 0);
    ck_assert_int_eq(sl_entry_set_config(e, config("\"auto\"", ", \"model\": {\"weights\": \"w\"}"),
                                         &all, &none),
                     SL_EINVAL);
    config("\"auto\"", "");
    memcpy(strstr(text, "\"/out\""), "\"out/\"", 6);
    ck_assert_int_eq(sl_entry_set_config(e, text, &all, &none), SL_EINVAL);
    says("absolute");
    ck_assert_int_eq(
        sl_entry_set_config(e,
                            config("\"auto\"", ", \"resume\": \"auto\", \"checkpoint\": "
                                               "{\"every_seconds\": 0}"),
                            &all, &none),
        SL_EINVAL);
    says("checkpoint.every_seconds");
    sl_entry_free(e);
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = 60)
