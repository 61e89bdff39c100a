// A small data set, a directory, a job with fake workers and its client, for tests of whole jobs.
#ifndef SL_TESTS_UNIT_BROKER_RING_JOB_H
#define SL_TESTS_UNIT_BROKER_RING_JOB_H

#include <pthread.h>

#include "broker/job/job.h"
#include "tests/unit/await.h"
#include "tests/unit/json_at.h"
#include "tests/unit/test_data_fixture.h"
#include "tests/unit/broker_fake_worker.h"

static char output[1100], bin[1100];

// A client of the job, in a thread of its own: what it does, and what it has heard.
static struct {
    struct sl_bus *bus; // the thread's while it runs
    char endpoint[128];
    char key[SL_BUS_KEY_TEXT];
    void (*on_message)(const Sl__Control__Envelope *m); // may send; NULL: only listens
    bool stats;                                         // it asks for statistics, too
    bool kill;                                          // with its Stop
    bool stop_at_start;
    uint32_t samplers, trainers; // that its Scale asks for

    int epochs;
    char lines[16384];
    bool finished;
    int exit_status;
    char message[4096];
    char directory[1100];
    cJSON *report;
} client;

static inline void client_reset(void)
{
    cJSON_Delete(client.report);
    memset(&client, 0, sizeof client);
}

static inline void make_dataset(void)
{
    static int64_t indptr[N_NODES + 1], ids[N_NODES];
    static int32_t indices[N_NODES], label[N_NODES];
    static float feat[N_NODES * 2];
    for (int i = 0; i < N_NODES; i++) {
        indptr[i + 1] = i + 1;
        indices[i] = (i + 1) % N_NODES;
        label[i] = i % 3;
        ids[i] = i;
    }
    char text[256];
    snprintf(text, sizeof text,
             "{\"name\": \"ring\", \"num_nodes\": %d, \"num_edges\": %d, \"feat_dim\": 2, "
             "\"num_classes\": 3, \"task\": \"multiclass\"}",
             N_NODES, N_NODES);
    write_text("metadata.json", text);
    write_list("indptr.npy", SL_DTYPE_I64, N_NODES + 1, indptr);
    write_list("indices.npy", SL_DTYPE_I32, N_NODES, indices);
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){N_NODES, 2}, feat);
    write_list("node_label.npy", SL_DTYPE_I32, N_NODES, label);
    write_list("train_idx.npy", SL_DTYPE_I64, N_TRAIN, ids);
    write_list("val_idx.npy", SL_DTYPE_I64, N_VAL, ids + N_TRAIN);
    write_list("test_idx.npy", SL_DTYPE_I64, N_TEST, ids + N_TRAIN + N_VAL);
}

static inline void ring_setup(void)
{
    char self[1024];
    client_reset();
    dir_begin();
    make_dataset();
    snprintf(output, sizeof output, "%s/out", dir);
    snprintf(bin, sizeof bin, "%s/bin", dir);
    ck_assert_int_eq(mkdir(bin, 0777), 0);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(n, 0);
    self[n] = '\0';
    ck_assert_int_eq(symlink(self, in_dir("bin/sluice-sampler")), 0);
    ck_assert_int_eq(symlink(self, in_dir("bin/sluice-trainer")), 0);
    unsetenv("FAKE_WORKER");
    setenv("FAKE_STAGE", in_dir("stage"), 1);
    fake_stage_open(in_dir("stage"));
    stage->epochs = UINT32_MAX;
}

// Lets time pass, for the job and its workers.
static inline void pass_seconds(double seconds)
{
    sl_clock_advance((uint64_t)(seconds * 1e9));
    atomic_store(&stage->ahead_ns, sl_clock_ahead_ns);
}

// Five mini-batches and three updates an epoch. `extra`: more keys of the job file.
static inline void ring_job_text(char *text, size_t bytes, const char *extra)
{
#define DEVICE "{\"kind\": \"cpu\", \"cores\": \"0\"}"
    // A job that names its split may ask for up to five roles.
    static const char two[] = DEVICE "," DEVICE;
    static const char five[] = DEVICE "," DEVICE "," DEVICE "," DEVICE "," DEVICE;
    snprintf(text, bytes,
             "{\"name\": \"fake\", \"dataset\": \"%s\", \"output\": \"%s\", \"digest\": true, "
             "\"model\": {\"kind\": \"graphsage\", \"layers\": 2, \"hidden\": 4}, "
             "\"sampler\": {\"fanout\": [2, 2], \"batch_size\": 8}, "
             "\"updates\": {\"batches_per_update\": 2}, "
             "\"devices\": [%s], \"seed\": 5%s%s}",
             dir, output, strstr(extra, "allocation") ? five : two, *extra ? ", " : "", extra);
}

// --- the client ----------------------------------------------------------------------------------

static inline void client_send(Sl__Control__Envelope__BodyCase body)
{
    Sl__Control__Subscribe subscribe = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Describe describe = SL__CONTROL__DESCRIBE__INIT;
    Sl__Control__Pause pause_body = SL__CONTROL__PAUSE__INIT;
    Sl__Control__Resume resume = SL__CONTROL__RESUME__INIT;
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    subscribe.progress = true; // lines of the log among it
    subscribe.stats = client.stats;
    stop.kill = client.kill;
    scale.has_samplers = scale.has_trainers = true;
    scale.samplers = client.samplers;
    scale.trainers = client.trainers;
    e.body_case = body;
    switch (body) {
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE: e.subscribe = &subscribe; break;
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE: e.describe = &describe; break;
    case SL__CONTROL__ENVELOPE__BODY_PAUSE: e.pause = &pause_body; break;
    case SL__CONTROL__ENVELOPE__BODY_RESUME: e.resume = &resume; break;
    case SL__CONTROL__ENVELOPE__BODY_STOP: e.stop = &stop; break;
    default: e.scale = &scale; break;
    }
    must(sl_bus_send(client.bus, NULL, &e));
}

#define SEND(body_) client_send(SL__CONTROL__ENVELOPE__BODY_##body_)

static inline void client_take(const Sl__Control__Envelope *m)
{
    size_t n = strlen(client.lines);
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE: client.epochs++; break;
    case SL__CONTROL__ENVELOPE__BODY_LOG_LINE:
        snprintf(client.lines + n, sizeof client.lines - n, "%s\n", m->log_line->text);
        break;
    case SL__CONTROL__ENVELOPE__BODY_FINISHED:
        client.finished = true;
        client.exit_status = m->finished->exit_status;
        snprintf(client.message, sizeof client.message, "%s", m->finished->message);
        snprintf(client.directory, sizeof client.directory, "%s", m->finished->run_directory);
        client.report = cJSON_Parse(m->finished->report_json);
        break;
    default: break;
    }
}

static inline void *client_main(void *arg)
{
    Sl__Control__Envelope *m;
    while (!client.finished && sl_bus_receive(client.bus, AWAIT_MS, NULL, &m) == SL_OK) {
        client_take(m);
        if (client.on_message)
            client.on_message(m);
        sl_bus_message_free(m);
    }
    return NULL;
}

// Runs a job with its client; its exit status. `options`: what else the test wants of it.
static inline int ring_job_run(struct sl_job_options options, const char *extra)
{
    char text[8192];
    pthread_t thread;
    ring_job_text(text, sizeof text, extra);
    sl_bus_new_endpoint(client.endpoint, sizeof client.endpoint, client.key);
    options.endpoint = client.endpoint;
    options.key = client.key;
    options.key_fd = sl_bus_key_hand_over(client.key);
    options.config_text = text;
    options.config_bytes = strlen(text);
    options.worker_directory = bin;
    must(sl_bus_connect(client.endpoint, client.key, &client.bus));
    SEND(SUBSCRIBE);
    if (client.stop_at_start)
        SEND(STOP);
    ck_assert_int_eq(pthread_create(&thread, NULL, client_main, NULL), 0);
    int status = sl_job_run(&options);
    pthread_join(thread, NULL);
    sl_bus_close(client.bus, 0);
    ck_assert_msg(client.finished, "the client has heard no end");
    ck_assert_int_eq(client.exit_status, status);
    return status;
}

#endif
