// What `sluice inspect`, `doctor` and `schema` print.
#include <cjson/cJSON.h>
#include <math.h>
#include <sys/resource.h>

#include "cli/command.h"
#include "common/base/failpoint.h"
#include "tests/unit/await.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

// The JSON that a command prints; its result is *rc.
static cJSON *json_of(int *rc, const struct sl_command *command, size_t n, const char *const *words)
{
    capture_begin();
    *rc = run_words(command, n, words);
    char *text = capture_end();
    cJSON *root = cJSON_Parse(text);
    if (!root)
        ck_abort_msg("%d (%s): not JSON: %s", *rc, sl_error_message(), text);
    free(text);
    return root;
}

#define JSON_OF(rc, command, ...)                                                                  \
    json_of(rc, &(command), sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                \
            (const char *[]){__VA_ARGS__})

// What inspect says of the data set in the test's directory: as JSON, and to people (free).
static cJSON *inspected(void)
{
    int rc;
    cJSON *json = JSON_OF(&rc, sl_command_inspect, "inspect", dir, "-o", "json");
    ck_assert_int_eq(rc, 0);
    return json;
}

static char *inspected_text(void)
{
    capture_begin();
    ck_assert_int_eq(RUN(sl_command_inspect, "inspect", dir), 0);
    return capture_end();
}

static const cJSON *at(const cJSON *json, const char *path)
{
    char key[64];
    for (const char *p = path; *p && json;) {
        size_t n = strcspn(p, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, p);
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(key))
                                   : cJSON_GetObjectItemCaseSensitive(json, key);
        p += n + (p[n] == '.');
    }
    if (!json)
        ck_abort_msg("there is no %s", path);
    return json;
}

static double number(const cJSON *json, const char *path)
{
    ck_assert(cJSON_IsNumber(at(json, path)));
    return at(json, path)->valuedouble;
}

static const char *string(const cJSON *json, const char *path)
{
    ck_assert(cJSON_IsString(at(json, path)));
    return at(json, path)->valuestring;
}

TEST(inspect_describes_a_data_set)
{
    int rc;
    tiny_begin();
    cJSON *json = JSON_OF(&rc, sl_command_inspect, "inspect", dir, "-o", "json", "--fanout=-1",
                          "--batch-size", "9");
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(string(json, "name"), "tiny");
    ck_assert(number(json, "num_nodes") == 5 && number(json, "num_edges") == 7);
    ck_assert(cJSON_IsTrue(at(json, "edge_weight")));
    ck_assert(number(json, "edge_weights.min") == 0 && number(json, "edge_weights.mean") == 2);
    ck_assert(number(json, "edge_weights.max") == 6);
    ck_assert(number(json, "edge_weights.weightless_vertices") == 0);
    ck_assert(number(json, "in_degree.min") == 0 && number(json, "in_degree.max") == 3);
    ck_assert(number(json, "in_degree.zero") == 1 && number(json, "in_degree.mean") == 1.4);
    // Degrees 0, 3, 2, 1, 1: bins 0, 1, 2 to 3.
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "in_degree.histogram")), 3);
    ck_assert(number(json, "in_degree.histogram.1.from") == 1);
    ck_assert(number(json, "in_degree.histogram.1.count") == 2);
    ck_assert(number(json, "in_degree.histogram.2.from") == 2);
    ck_assert(number(json, "in_degree.histogram.2.count") == 2);
    ck_assert_str_eq(string(json, "feat_dtype"), "float32");
    ck_assert(number(json, "feat_dim") == 3);
    ck_assert(number(json, "class_counts.0") == 2 && number(json, "class_counts.1") == 2);
    ck_assert_str_eq(string(json, "task"), "multiclass");
    ck_assert(number(json, "unlabelled") == 1);
    ck_assert(number(json, "split.train") == 2 && number(json, "split.test") == 1);
    struct stat st;
    ck_assert_int_eq(stat(in_dir("node_feat.npy"), &st), 0);
    const cJSON *files = at(json, "files"); // names have dots in them
    ck_assert(cJSON_GetObjectItem(files, "node_feat.npy")->valuedouble == (double)st.st_size);
    ck_assert(number(json, "batch.edges") == 4);
    cJSON_Delete(json);
}

TEST(inspect_tells_what_lists_share)
{
    tiny_begin();
    WRITE_I64("test_idx.npy", 1, 3, 0);
    ck_assert_int_eq(sl_exit_status(RUN(sl_command_inspect, "inspect", dir)), 2);
    assert_message_has("train_idx.npy and test_idx.npy share 2 vertices (1, 3), val_idx.npy and "
                       "test_idx.npy share 1 vertex (0)");
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"num_classes\": 2, \"splits\": \"overlap\"}");
    cJSON *json = inspected();
    ck_assert(number(json, "overlap.train_test") == 2 && number(json, "overlap.val_test") == 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "overlap")), 2);
    cJSON_Delete(json);
    char *text = inspected_text();
    assert_has(text, "train and test share 2 vertices (1, 3)");
    assert_has(text, "validation and test share 1 vertex (0)");
    free(text);
}

TEST(inspect_describes_several_labels)
{
    tiny_begin();
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"num_classes\": 2, \"task\": \"multilabel\"}");
    write_npy("node_label.npy", SL_DTYPE_I8, 2, (uint64_t[]){5, 2},
              (int8_t[]){1, 0, 1, -1, -1, -1, 0, 1, 1, 0});
    cJSON *json = inspected();
    ck_assert_str_eq(string(json, "task"), "multilabel");
    ck_assert(number(json, "labels.0.known") == 4 && number(json, "labels.0.positive") == 3);
    ck_assert(number(json, "labels.1.known") == 3 && number(json, "labels.1.positive") == 1);
    ck_assert(number(json, "unlabelled") == 1);
    cJSON_Delete(json);
    char *text = inspected_text();
    assert_has(text, "2, of which a labelled vertex has 1.00, 1 vertices unlabelled");
    assert_has(text, "75.0 %");
    free(text);
}

TEST(inspect_describes_numbers)
{
    tiny_begin();
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"task\": \"regression\"}");
    WRITE_F32("node_label.npy", 1000000, 1000002, NAN, 1000001, 1000005);
    cJSON *json = inspected();
    ck_assert_str_eq(string(json, "task"), "regression");
    ck_assert(number(json, "num_classes") == 1);
    ck_assert(number(json, "targets.0.known") == 4 && number(json, "unlabelled") == 1);
    ck_assert(number(json, "targets.0.min") == 1000000);
    ck_assert(number(json, "targets.0.max") == 1000005);
    ck_assert(number(json, "targets.0.mean") == 1000002);
    ck_assert_double_eq_tol(number(json, "targets.0.deviation"), sqrt(14.0 / 4), 1e-9);
    cJSON_Delete(json);
    char *text = inspected_text();
    assert_has(text, "1 number a vertex, 1 vertices unlabelled");
    assert_has(text, "1.87083");
    free(text);
}

TEST(inspect_counts_vertices_whose_edges_weigh_nothing)
{
    tiny_begin(); // in-edges of vertices 1 to 4: 3, 2, 1, 1
    WRITE_F32("edge_weight.npy", 1, 0, 0, 0, -0.0f, 0, 4);
    cJSON *json = inspected();
    ck_assert(number(json, "edge_weights.weightless_vertices") == 2);
    ck_assert(number(json, "edge_weights.weightless_edges") == 5);
    cJSON_Delete(json);
    char *text = inspected_text();
    assert_has(text, "min 0, mean 0.7143, max 4, 2 vertices whose edges weigh nothing");
    free(text);
    ck_assert_int_eq(remove(in_dir("edge_weight.npy")), 0);
    json = inspected();
    ck_assert(cJSON_IsFalse(at(json, "edge_weight")));
    ck_assert_ptr_null(cJSON_GetObjectItem(json, "edge_weights"));
    cJSON_Delete(json);
}

TEST(inspect_remembers_a_validation)
{
    tiny_begin();
    cJSON *first = inspected(), *second = NULL;
    ck_assert(cJSON_IsTrue(at(first, "validated_now")));
    // Once its files are older than the kernel's clock ticks. A captured file in the data set's
    // directory is none of them.
    AWAIT((cJSON_Delete(second), second = inspected(), cJSON_IsFalse(at(second, "validated_now"))));
    ck_assert_str_eq(string(first, "digest"), string(second, "digest"));
    cJSON_Delete(first);
    cJSON_Delete(second);
}

TEST(inspect_prints_tables)
{
    tiny_begin();
    char *text = inspected_text();
    assert_has(text, "min 0, mean 1.4, max 3, 1 vertices without");
    assert_has(text, "3 x float32, 12 B a vertex");
    assert_has(text, "    2 - 3         2  40.0 %");
    assert_has(text, "A batch of 1024 with fanout 15,10,5");
    free(text);
}

TEST(inspect_needs_topology_alone)
{
    WRITE_I64("indptr.npy", 0, 0);
    write_list("indices.npy", SL_DTYPE_I32, 0, "");
    write_text("metadata.json", "{\"name\": \"one\", \"num_nodes\": 1, \"num_edges\": 0}");
    cJSON *json = inspected();
    ck_assert(number(json, "num_nodes") == 1 && number(json, "batch.edges") == 0);
    cJSON_Delete(json);
}

TEST(inspect_explains_a_broken_data_set)
{
    tiny_begin();
    WRITE_I32("indices.npy", 0, 2, 3, 1, 5, 0, 0);
    ck_assert_int_eq(sl_exit_status(RUN(sl_command_inspect, "inspect", dir)), 2);
    assert_message_has("indices.npy");
    ck_assert_int_eq(sl_exit_status(RUN(sl_command_inspect, "inspect", in_dir("none"))), 2);
    ck_assert_int_eq(sl_exit_status(RUN(sl_command_inspect, "inspect")), 2);
}

TEST(doctor_examines_the_machine)
{
    int rc;
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    // The worker programs do not stand beside a test program.
    ck_assert_int_eq(rc, 1);
    ck_assert_str_eq(string(json, "verdict"), "problem");
    ck_assert_str_eq(string(json, "checks.programs.verdict"), "problem");
    assert_has(string(json, "checks.programs.advice"), "sluice-sampler");
    ck_assert_str_eq(string(json, "checks.memfd.verdict"), "ok");
    ck_assert_str_eq(string(json, "checks.cache.found"), getenv("SLUICE_CACHE_DIR"));
    assert_has(string(json, "checks.memory.found"), "usable");
    ck_assert_ptr_nonnull(at(json, "checks.cores"));
    cJSON_Delete(json);
}

TEST(doctor_finds_a_low_limit)
{
    int rc;
    struct rlimit r;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
    r.rlim_cur = 40;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    ck_assert_int_eq(rc, 1);
    ck_assert_str_eq(string(json, "checks.nofile.verdict"), "problem");
    assert_has(string(json, "checks.nofile.advice"), "ulimit -n");
    cJSON_Delete(json);
}

TEST(doctor_warns_of_failpoints_and_a_missing_cache)
{
    int rc;
    setenv("SLUICE_FAILPOINT", "sampler_drawn:3", 1);
    unsetenv("SLUICE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    ck_assert_str_eq(string(json, "checks.failpoint.verdict"), "warning");
    ck_assert_str_eq(string(json, "checks.cache.verdict"), "warning");
    cJSON_Delete(json);
    setenv("SLUICE_FAILPOINT", "nonsense", 1);
    json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    ck_assert_str_eq(string(json, "checks.failpoint.verdict"), "problem");
    cJSON_Delete(json);
}

TEST(doctor_looks_around)
{
    int rc;
    setenv("SLUICE_RUNTIME_DIR", in_dir("runtime"), 1);
    setenv("NOTIFY_SOCKET", "@waiting", 1);
    setenv("container", "tests", 1);
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    static const char *const keys[] = {"cpu_quota",  "daemon",   "libraries",
                                       "container",  "terminal", "systemd",
                                       "huge_pages", "numa",     "drive_reads"};
    for (size_t i = 0; i < SL_COUNT_OF(keys); i++) {
        char path[64];
        snprintf(path, sizeof path, "checks.%s.verdict", keys[i]);
        ck_assert_str_ne(string(json, path), "problem");
    }
    assert_has(string(json, "checks.daemon.found"), "none at ");
    assert_has(string(json, "checks.daemon.found"), "/runtime");
    assert_has(string(json, "checks.libraries.found"), "libzmq");
    assert_has(string(json, "checks.libraries.found"), "CURVE");
    assert_has(string(json, "checks.container.found"), "tests; /dev/shm");
    assert_has(string(json, "checks.systemd.found"), "@waiting");
    assert_has(string(json, "checks.huge_pages.found"), "shared memory: ");
    assert_has(string(json, "checks.drive_reads.found"), "through ");
    cJSON_Delete(json);
}

// Others may enter it: no place for sockets.
TEST(doctor_warns_of_a_runtime_directory_that_is_open_to_others)
{
    int rc;
    ck_assert_int_eq(mkdir(in_dir("runtime"), 0777), 0);
    ck_assert_int_eq(chmod(in_dir("runtime"), 0777), 0);
    setenv("SLUICE_RUNTIME_DIR", in_dir("runtime"), 1);
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "-o", "json");
    ck_assert_str_eq(string(json, "checks.daemon.verdict"), "warning");
    assert_has(string(json, "checks.daemon.advice"), "runtime");
    cJSON_Delete(json);
}

TEST(doctor_lists_every_failpoint)
{
    int rc;
    cJSON *json = JSON_OF(&rc, sl_command_doctor, "doctor", "--failpoints", "-o", "json");
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(cJSON_GetArraySize(json), SL_FAILPOINT_COUNT);
    capture_begin();
    ck_assert_int_eq(RUN(sl_command_doctor, "doctor", "--failpoints"), 0);
    char *text = capture_end();
    for (int i = 0; i < SL_FAILPOINT_COUNT; i++) {
        const char *name = sl_failpoint_name((enum sl_failpoint)i);
        assert_has(text, name);
        ck_assert_str_eq(string(json, name), sl_failpoint_where((enum sl_failpoint)i));
    }
    cJSON_Delete(json);
    free(text);
}

TEST(schema_is_printed)
{
    int rc;
    cJSON *json = JSON_OF(&rc, sl_command_schema, "schema");
    ck_assert_int_eq(rc, 0);
    ck_assert_ptr_nonnull(at(json, "properties.dataset"));
    cJSON_Delete(json);
    ck_assert_int_eq(RUN(sl_command_schema, "schema", "extra"), SL_EINVAL);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
