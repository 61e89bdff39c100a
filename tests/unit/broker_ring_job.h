// A small data set, a directory and a job with fake workers, for tests of whole jobs.
#ifndef SL_TESTS_UNIT_BROKER_RING_JOB_H
#define SL_TESTS_UNIT_BROKER_RING_JOB_H

#include "tests/unit/await.h"
#include "tests/unit/test_data_fixture.h"
#include "tests/unit/broker_fake_worker.h"

static char output[1100], bin[1100];

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
static inline void ring_job_text(char *text, size_t bytes, const char *model_keys,
                                 const char *fanouts, const char *extra)
{
#define DEVICE "{\"kind\": \"cpu\", \"cores\": \"0\"}"
    // A job that names its split may ask for up to five roles.
    static const char two[] = DEVICE "," DEVICE;
    static const char five[] = DEVICE "," DEVICE "," DEVICE "," DEVICE "," DEVICE;
    snprintf(text, bytes,
             "{\"name\": \"fake\", \"dataset\": \"%s\", \"output\": \"%s\", \"digest\": true, "
             "\"model\": {\"kind\": \"graphsage\", %s}, "
             "\"sampler\": {\"fanout\": %s, \"batch_size\": 8}, "
             "\"updates\": {\"batches_per_update\": 2}, "
             "\"devices\": [%s], \"seed\": 5%s%s}",
             dir, output, model_keys, fanouts, strstr(extra, "allocation") ? five : two,
             *extra ? ", " : "", extra);
}

#endif
