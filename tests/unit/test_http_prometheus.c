// The statistics as Prometheus text: families, labels, histograms, what is not known.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/http/prometheus.h"
#include "common/base/bits.h"
#include "tests/unit/suite.h"

static struct sl_job_stats store;
static struct sl_text text;

static const char line[] =
    "{\"schema\":\"sluice.stats/1\",\"job\":\"JOB\",\"id\":null,\"state\":\"paused\",\"epoch\":3,"
    "\"loss\":0.1,\"seconds_left\":null,\"samplers\":1,"
    "\"metric\":{\"name\":\"accuracy\",\"value\":0.75,\"epoch\":2},\"best\":null,"
    "\"queue\":{\"batches\":4,\"bytes\":1e6},\"cache\":{\"policy\":\"presc\",\"hit_rate\":0.5},"
    "\"updates\":{\"mode\":\"ordered\",\"version\":9},"
    "\"stages\":{\"sample\":{\"busy\":0.25,\"count\":7,\"seconds\":1.5,\"p50\":null}},"
    "\"totals\":{\"batches\":12345678901,\"hit_bytes\":10,\"matched_bytes\":5,"
    "\"miss_bytes\":20},"
    "\"histograms\":{\"le\":[0.001,0.1],\"sample\":{\"counts\":[1,2,4],\"sum\":1.5,\"count\":7}},"
    "\"workers\":[{\"name\":\"sampler 0\",\"role\":\"sampler\",\"device\":0,\"state\":\"working\","
    "\"busy\":0.9,\"batches\":5},{\"name\":\"trainer 0\",\"role\":\"trainer\",\"device\":1,"
    "\"state\":\"gone\"}],"
    "\"devices\":[{\"index\":0,\"kind\":\"cpu\",\"name\":\"cpu 0\",\"memory_used\":99},"
    "{\"index\":1,\"kind\":\"cuda\",\"name\":\"cuda 1\",\"memory_used\":70,"
    "\"gpu_memory_used\":80,\"gpu_memory_total\":90,\"gpu_load\":0.375,\"gpu_memory_load\":null}],"
    "\"types\":[{\"name\":\"paper\",\"input_nodes\":40,\"hits\":10}],"
    "\"relations\":[{\"source\":\"author\",\"name\":\"writes\",\"target\":\"paper\","
    "\"sampled_edges\":70}],"
    "\"held\":[{\"worker\":\"trainer 0\",\"device\":1,\"type\":\"paper\",\"rows\":6,"
    "\"bytes\":768}],"
    "\"links\":[{\"kind\":\"features\",\"reader\":1,\"from\":\"2\",\"bytes\":640},"
    "{\"kind\":\"features\",\"reader\":1,\"from\":\"memory\",\"bytes\":64}],"
    "\"nodes\":[{\"rank\":0,\"host\":\"a\",\"batches\":7,\"waits\":0.5,\"queue\":null},"
    "{\"rank\":1,\"host\":null}],"
    "\"wires\":[{\"node\":0,\"from\":1,\"bytes\":320,\"late_seconds\":0.25}],"
    "\"bottleneck_role\":\"samplers\"}";

static void begin(void)
{
    memset(&store, 0, sizeof store);
    memset(&text, 0, sizeof text);
}

static void end(void)
{
    sl_job_stats_fini(&store);
    sl_text_fini(&text);
}

// name: as it stands in JSON.
static void add_job(const char *key, const char *name, uint64_t at_ns)
{
    char json[sizeof line + 64];
    const char *at = strstr(line, "JOB");
    snprintf(json, sizeof json, "%.*s%s%s", (int)(at - line), line, name, at + 3);
    ck_assert_ptr_nonnull(sl_job_stats_on_line(&store, key, json, at_ns));
}

static const char *write(uint64_t now_ns)
{
    struct sl_prometheus_server server = {.requests = 5, .open = 3, .streams = 2};
    sl_text_fini(&text);
    sl_prometheus_write(&store, now_ns, &server, &text);
    ck_assert(!text.failed);
    return text.s;
}

static int count(const char *in, const char *what)
{
    int n = 0;
    for (const char *at = in; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void expect(const char *wanted)
{
    ck_assert_msg(strstr(text.s, wanted) != NULL, "no '%s' in\n%s", wanted, text.s);
}

TEST(without_a_job_there_is_the_server)
{
    write(0);
    expect("\nsluice_build_info{version=\"");
    expect("\nsluice_http_requests_total 5\n");
    expect("\nsluice_http_open_requests 3\n");
    expect("\nsluice_http_streams 2\n");
    ck_assert_int_eq(count(text.s, "{job="), 0);
}

TEST(a_family_is_introduced_once_however_many_jobs)
{
    add_job("1", "a", 1);
    add_job("2", "b", 1);
    write(2);
    ck_assert_int_eq(count(text.s, "# TYPE sluice_loss gauge\n"), 1);
    ck_assert_int_eq(count(text.s, "# HELP sluice_loss "), 1);
    expect("# TYPE sluice_loss gauge\nsluice_loss{job=\"a\",id=\"1\"} 0.1\n"
           "sluice_loss{job=\"b\",id=\"2\"} 0.1\n");
}

TEST(each_way_has_the_bytes_that_were_read_over_it)
{
    add_job("1", "a", 1);
    write(2);
    ck_assert_int_eq(count(text.s, "# TYPE sluice_link_bytes_total counter\n"), 1);
    expect("sluice_link_bytes_total{job=\"a\",id=\"1\",kind=\"features\",reader=\"1\",from=\"2\"} "
           "640\n");
    expect("reader=\"1\",from=\"memory\"} 64\n");
}

TEST(each_type_and_each_relation_has_its_figures)
{
    add_job("1", "a", 1);
    write(2);
    expect("sluice_type_input_nodes_total{job=\"a\",id=\"1\",type=\"paper\"} 40\n");
    expect("sluice_type_cache_hits_total{job=\"a\",id=\"1\",type=\"paper\"} 10\n");
    expect("sluice_relation_edges_total{job=\"a\",id=\"1\",source=\"author\",relation=\"writes\","
           "target=\"paper\"} 70\n");
    expect("sluice_held_rows{job=\"a\",id=\"1\",worker=\"trainer 0\",device=\"1\","
           "type=\"paper\"} 6\n");
    expect("sluice_held_bytes{job=\"a\",id=\"1\",worker=\"trainer 0\",device=\"1\","
           "type=\"paper\"} 768\n");
}

TEST(each_node_and_each_wire_has_its_figures)
{
    add_job("1", "a", 1);
    write(2);
    expect("sluice_node_batches_total{job=\"a\",id=\"1\",node=\"0\",host=\"a\"} 7\n");
    expect("sluice_node_waits_ratio{job=\"a\",id=\"1\",node=\"0\",host=\"a\"} 0.5\n");
    ck_assert_ptr_null(strstr(text.s, "sluice_node_queue_batches{"));
    ck_assert_ptr_null(strstr(text.s, "node=\"1\""));
    expect("sluice_wire_bytes_total{job=\"a\",id=\"1\",node=\"0\",from=\"1\"} 320\n");
    expect("sluice_wire_late_seconds_total{job=\"a\",id=\"1\",node=\"0\",from=\"1\"} 0.25\n");
}

TEST(numbers_are_whole_and_unknown_ones_are_left_out)
{
    add_job("1", "a", 1);
    write(2);
    expect("sluice_batches_total{job=\"a\",id=\"1\"} 12345678901\n");
    expect("sluice_validation_metric{job=\"a\",id=\"1\",metric=\"accuracy\"} 0.75\n");
    expect("sluice_feature_bytes_total{job=\"a\",id=\"1\",tier=\"batch\"} 5\n");
    expect("sluice_feature_bytes_total{job=\"a\",id=\"1\",tier=\"store\"} 20\n");
    ck_assert_ptr_null(strstr(text.s, "sluice_job_left_seconds{"));
    ck_assert_ptr_null(strstr(text.s, "sluice_validation_metric_best{"));
    ck_assert_ptr_null(strstr(text.s, "null"));
}

TEST(a_histogram_is_cumulative_and_ends_in_infinity)
{
    add_job("1", "a", 1);
    write(2);
    expect("sluice_stage_duration_seconds_bucket{job=\"a\",id=\"1\",stage=\"sample\",le=\"0.001\"} "
           "1\n"
           "sluice_stage_duration_seconds_bucket{job=\"a\",id=\"1\",stage=\"sample\",le=\"0.1\"} "
           "3\n"
           "sluice_stage_duration_seconds_bucket{job=\"a\",id=\"1\",stage=\"sample\",le=\"+Inf\"} "
           "7\n"
           "sluice_stage_duration_seconds_sum{job=\"a\",id=\"1\",stage=\"sample\"} 1.5\n"
           "sluice_stage_duration_seconds_count{job=\"a\",id=\"1\",stage=\"sample\"} 7\n");
    ck_assert_ptr_null(strstr(text.s, "stage=\"train\""));
}

TEST(states_are_told_one_by_one)
{
    add_job("1", "a", 1);
    write(2);
    expect("sluice_job_state{job=\"a\",id=\"1\",state=\"paused\"} 1\n");
    expect("sluice_job_state{job=\"a\",id=\"1\",state=\"running\"} 0\n");
    expect("sluice_bottleneck{job=\"a\",id=\"1\",role=\"samplers\"} 1\n");
    expect("sluice_bottleneck{job=\"a\",id=\"1\",role=\"drive\"} 0\n");
    expect("sluice_worker_up{job=\"a\",id=\"1\",worker=\"sampler 0\",role=\"sampler\",device=\"0\"}"
           " 1\n");
    expect("sluice_worker_up{job=\"a\",id=\"1\",worker=\"trainer 0\",role=\"trainer\",device=\"1\"}"
           " 0\n");
    expect("sluice_device_memory_bytes{job=\"a\",id=\"1\",device=\"0\",kind=\"cpu\",name=\"cpu 0\"}"
           " 99\n");
    expect("sluice_device_gpu_memory_used_bytes{job=\"a\",id=\"1\",device=\"1\",kind=\"cuda\","
           "name=\"cuda 1\"} 80\n");
    expect("sluice_device_gpu_memory_bytes{job=\"a\",id=\"1\",device=\"1\",kind=\"cuda\","
           "name=\"cuda 1\"} 90\n");
    expect("sluice_device_gpu_load_ratio{job=\"a\",id=\"1\",device=\"1\",kind=\"cuda\","
           "name=\"cuda 1\"} 0.375\n");
    ck_assert_ptr_null(strstr(text.s, "sluice_device_gpu_memory_load_ratio{")); // it is not known
    // none of a device without a GPU
    ck_assert_ptr_null(strstr(text.s, "sluice_device_gpu_memory_bytes{job=\"a\",id=\"1\","
                                      "device=\"0\""));
}

static const char *const states[] = {"queued", "starting", "running", "paused",     "finishing",
                                     "done",   "failed",   "stopped", "interrupted"};

LOOP_TEST(a_state_of_the_daemon_s_list_is_1_and_the_others_are_0, 0, SL_COUNT_OF(states))
{
    char entry[128], wanted[128];
    const char *now = states[_i];
    add_job("1", "a", 1);
    snprintf(entry, sizeof entry, "{\"id\":\"1\",\"name\":\"a\",\"state\":\"%s\"}", now);
    sl_job_stats_on_entry(&store, entry);
    sl_job_stats_end(&store, "1");
    write(2);
    ck_assert_int_eq(count(text.s, "\nsluice_job_state{"), 9);
    for (size_t i = 0; i < SL_COUNT_OF(states); i++) {
        snprintf(wanted, sizeof wanted, "\nsluice_job_state{job=\"a\",id=\"1\",state=\"%s\"} %d\n",
                 states[i], strcmp(states[i], now) == 0);
        expect(wanted);
    }
}

TEST(jobs_without_statistics_have_a_state)
{
    add_job("2", "gone", 1);
    sl_job_stats_on_list(&store, "{\"schema\":\"sluice.jobs/1\",\"jobs\":["
                                 "{\"id\":\"3\",\"name\":\"old\",\"state\":\"failed\"},"
                                 "{\"id\":\"4\",\"name\":\"new\",\"state\":\"queued\"}]}");
    write(3000 * 1000000000ull);
    expect("sluice_job_state{job=\"old\",id=\"3\",state=\"failed\"} 1\n");
    expect("sluice_job_state{job=\"new\",id=\"4\",state=\"queued\"} 1\n");
    ck_assert_int_eq(count(text.s, "\nsluice_job_state{"), 18);
    ck_assert_int_eq(count(text.s, "job=\"gone\""), 0);
}

TEST(labels_are_escaped)
{
    add_job("1", "a\\\"b\\\\c\\nd", 1);
    write(2);
    expect("sluice_loss{job=\"a\\\"b\\\\c\\nd\",id=\"1\"} 0.1\n");
}

TEST(statistics_of_a_job_that_has_long_been_silent_are_not_told)
{
    add_job("1", "old", 1000000000u);
    add_job("2", "new", 400 * 1000000000ull);
    write(401 * 1000000000ull);
    ck_assert_ptr_null(strstr(text.s, "sluice_loss{job=\"old\""));
    expect("sluice_loss{job=\"new\"");
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = 60)
