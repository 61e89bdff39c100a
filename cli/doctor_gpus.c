/*
 * doctor_gpus.c - what `sluice doctor` says of GPUs: the plug-in, driver and runtime, each GPU, the
 * libraries of NVIDIA, and what would stop a job on them.
 *
 * A machine without a GPU is an ordinary one: jobs run on its cores, and nothing is wrong. What is
 * there and cannot be used is a warning, since jobs on CPU devices still run.
 */
#include "cli/doctor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/device/mps.h"
#include "common/text/units.h"
#include "broker/sharding/gpus.h"
#include "common/base/memory.h"

// GPUs that are told one by one; the rest is counted.
enum { GPUS_TOLD = 16 };

#define LOCKED_WANTED (UINT64_C(1) << 30)

static const char *const gpu_keys[GPUS_TOLD] = {
    "gpu0", "gpu1", "gpu2",  "gpu3",  "gpu4",  "gpu5",  "gpu6",  "gpu7",
    "gpu8", "gpu9", "gpu10", "gpu11", "gpu12", "gpu13", "gpu14", "gpu15",
};

// "13.0" of 13000.
static const char *version_text(char out[16], uint32_t version)
{
    snprintf(out, 16, "%u.%u", version / 1000, version % 1000 / 10);
    return out;
}

static void add_driver(struct sl_doctor *d, const struct sl_gpus *gpus)
{
    const struct sl_gpu_report *r = &gpus->report;
    char a[16], b[16];
    if (r->driver_version)
        sl_doctor_add(d, "gpu_driver", "GPU driver", "for CUDA %s, the plug-in's runtime is %s",
                      version_text(a, r->driver_version), version_text(b, r->runtime_version));
    else if (r->runtime_version)
        sl_doctor_add(d, "gpu_driver", "GPU driver", "none, the plug-in's runtime is CUDA %s",
                      version_text(b, r->runtime_version));
}

static void add_gpu(struct sl_doctor *d, uint32_t index, const struct sl_gpu *gpu)
{
    static char names[GPUS_TOLD][16];
    char total[SL_UNITS_BYTES], available[SL_UNITS_BYTES];
    snprintf(names[index], sizeof names[index], "GPU %u", index);
    struct sl_doctor_check *c = sl_doctor_add(
        d, gpu_keys[index], names[index], "%s, capability %u.%u, %s free of %s%s%s%s%s", gpu->name,
        gpu->major, gpu->minor, sl_units_bytes(available, gpu->free_bytes),
        sl_units_bytes(total, gpu->total_bytes), gpu->bus_id[0] ? ", bus " : "", gpu->bus_id,
        gpu->cores[0] ? ", near cores " : "", gpu->cores);
    if (gpu->free_bytes < gpu->total_bytes / 2)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "other processes have more than half of it: 'nvidia-smi' lists them; a "
                         "job takes what is free when it starts");
}

// Whether GPUs read a data set's files where they are mapped; where they do not, what then.
static void add_files(struct sl_doctor *d, const struct sl_gpu_report *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++)
        n += r->gpu[i].maps_files;
    char who[48] = "no GPU reads", most[SL_UNITS_BYTES];
    if (n == r->n) {
        sl_doctor_add(d, "gpu_files", "data on GPUs", "the files of data sets are read in place");
        return;
    }
    if (n > 0)
        snprintf(who, sizeof who, "%u of %u GPUs read", n, r->n);
    sl_doctor_add(d, "gpu_files", "data on GPUs",
                  "%s the files of data sets in place: a job has one pinned copy of features, in "
                  "pages of %s, where that takes no more than half of the memory beside its arena, "
                  "now %s at most; larger ones are staged by the processor",
                  who, sl_doctor_shares_huge_pages() ? "2 MiB" : "4 KiB",
                  sl_units_bytes(most, sl_device_memory_available() / 2));
}

// " GPU 1 at 50 GB/s, 2 at 25 GB/s (assumed)", for a GPU.
static void reach_text(const struct sl_gpu_report *r, uint32_t reader, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < r->n && n < bytes; i++) {
        const double rate = i == reader ? 0 : sl_gpus_link(r, reader, i);
        if (rate > 0)
            n += (size_t)snprintf(out + n, bytes - n, "%s %u at %.3g GB/s%s", n ? "," : "", i, rate,
                                  r->gpu[reader].link[i] > 0 ? "" : " (assumed)");
    }
    if (n == 0)
        snprintf(out, bytes, " none");
}

// Which GPUs can hold features together.
static void add_links(struct sl_doctor *d, const struct sl_gpu_report *r)
{
    static char names[GPUS_TOLD][24], keys[GPUS_TOLD][16];
    char reach[SL_DOCTOR_TEXT_BYTES - 64];
    for (uint32_t i = 0; r->n > 1 && i < r->n && i < GPUS_TOLD; i++) {
        snprintf(names[i], sizeof names[i], "read by GPU %u", i);
        snprintf(keys[i], sizeof keys[i], "gpu%u_reads", i);
        reach_text(r, i, reach, sizeof reach);
        sl_doctor_add(d, keys[i], names[i], "GPU%s", reach);
    }
}

// Blocks go to a GPU in one copy where they may be pinned.
static void add_locked_limit(struct sl_doctor *d)
{
    struct rlimit r;
    char soft[SL_UNITS_BYTES];
    if (getrlimit(RLIMIT_MEMLOCK, &r) != 0)
        return;
    bool unlimited = r.rlim_cur == RLIM_INFINITY;
    struct sl_doctor_check *c =
        sl_doctor_add(d, "gpu_memlock", "locked memory", "%s",
                      unlimited ? "unlimited" : sl_units_bytes(soft, r.rlim_cur));
    if (!unlimited && r.rlim_cur < LOCKED_WANTED && geteuid() != 0)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "where the driver cannot pin a job's shared memory, mini-batches are "
                         "copied once more: 'ulimit -l unlimited', or LimitMEMLOCK=infinity");
}

// What becomes of processes that share a GPU.
static void add_sharing(struct sl_doctor *d)
{
    struct sl_mps mps;
    sl_mps_look(&mps);
    if (mps.serves)
        sl_doctor_add(d, "mps", "shared GPUs", "%s has processes that share a GPU run at once",
                      mps.found);
    else
        sl_doctor_add(
            d, "mps", "shared GPUs",
            "%s: processes that share a GPU take turns ('scripts/mps run COMMAND', installed in "
            "share/sluice, has them run at once)",
            mps.found);
}

void sl_doctor_check_gpus(struct sl_doctor *d)
{
    const struct sl_gpus *gpus = sl_gpus_known();
    const struct sl_gpu_report *r = &gpus->report;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct sl_doctor_check *c =
        r->n == 0
            ? sl_doctor_add(d, "gpus", "GPUs", "none that can be used")
            : sl_doctor_add(d, "gpus", "GPUs", "%u, taken by \"devices\": \"auto\"%s%.400s", r->n,
                            visible ? ", CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    if (r->n == 0) {
        bool odd = sl_gpus_is_odd(gpus) || !gpus->asked;
        sl_doctor_advise(c, odd ? SL_VERDICT_WARNING : SL_VERDICT_OK, "%s%s", r->problem,
                         odd ? "" : " (jobs run on the cores)");
    }
    if (gpus->plugin[0])
        sl_doctor_add(d, "gpu_plugin", "GPU plug-in", "%.900s", gpus->plugin);
    add_driver(d, gpus);
    for (uint32_t i = 0; i < r->n && i < GPUS_TOLD; i++)
        add_gpu(d, i, &r->gpu[i]);
    if (r->n == 0)
        return;
    add_links(d, r);
    add_files(d, r);
    add_sharing(d);
    if (r->cublas[0])
        sl_doctor_add(d, "cublas", "cuBLAS", "%.900s", r->cublas);
    if (r->nccl[0])
        sl_doctor_add(d, "nccl", "NCCL",
                      "%.900s (only \"updates\": {\"exchange\": \"nccl\"} needs it)", r->nccl);
    add_locked_limit(d);
}
