/*
 * main.c - the trainer process: started by the broker (common/bus/worker.h), or for predictions by
 * the command line (predict.h); never by hand.
 *
 * Pin, open the device and the data set, lay the model out, tell the broker its tensors, map the
 * arena, measure a training step, work.
 * Exit status 0 after a stop; 1 after an error, which the broker has been told.
 */
#include "common/base/advise.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/dataset_fault.h"
#include "common/data/self_loops.h"
#include "common/data/wider_graph.h"
#include "common/arena/arena.h"
#include "common/arena/seat.h"
#include "common/bus/worker.h"
#include "trainer/announce.h"
#include "trainer/feed/arena_access.h"
#include "trainer/feed/compute.h"
#include "trainer/feed/devices.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/reading.h"
#include "trainer/infer/typed_pieces.h"
#include "trainer/loop.h"
#include "trainer/model/neighbours.h"
#include "trainer/model/sync.h"
#include "trainer/predict.h"
#include "trainer/probe.h"

struct program {
    struct sl_worker worker;
    struct sl_config config;
    struct sl_compute compute;
    struct sl_dataset dataset;
    struct sl_objective objective;
    struct sl_self_loops self_loops;
    struct sl_neighbours neighbours;
    struct sl_wider_graph wider; // and what inference needs of it
    struct sl_self_loops wider_loops;
    struct sl_neighbours wider_neighbours;
    struct sl_infer_graph wider_graph;
    struct sl_model model;
    struct sl_link_sets links;
    struct sl_typed_pieces pieces; // of a graph of several types
    struct sl_gather gather;
    struct sl_reading extracts, fetches, infers;
    struct sl_row_source features; // of inference
    struct sl_arena_access access;
    struct sl_row_table rows; // learned ones
};

static int prepare(struct program *p)
{
    struct sl_worker *w = &p->worker;
    SL_TRY(sl_config_take_device(w->told.job, w->told.job_bytes, w->device, w->name, &p->config));
    int threads = (int)p->config.devices[w->device].n_cores;
    sl_kernels_set_threads(threads);
    SL_TRY(sl_compute_open(&p->config.devices[w->device], &p->compute));
    const unsigned need = sl_config_needs(&p->config) | SL_TAKES_SHARD;
    SL_TRY(sl_dataset_open_recorded(p->config.dataset, need, w->told.record, threads, &p->dataset));
    sl_config_choose_features(&p->config, &p->dataset);
    SL_TRY(sl_config_choose_items(&p->config, &p->dataset));
    if (sl_neighbours_walks(&p->config))
        SL_TRY(sl_config_find_relations(&p->config, &p->dataset.typed));
    SL_TRY(sl_objective_init(&p->objective, &p->config, &p->dataset));
    SL_TRY(sl_model_init(&p->model, &p->config, p->dataset.feat_dim, &p->dataset.typed,
                         &p->objective, p->compute.device, p->compute.kernels));
    if (sl_config_is_links(&p->config)) {
        const struct sl_link_negatives negatives = sl_config_negatives(&p->config);
        SL_TRY(sl_link_sets_init(&p->links, &p->dataset, &negatives));
        p->model.links = &p->links;
    }
    if (p->model.typed) {
        SL_TRY(sl_typed_pieces_init(&p->pieces, &p->model, &p->dataset));
        p->model.pieces = &p->pieces;
    }
    return sl_model_prepare_inference(&p->model, &p->config, &p->dataset, threads, &p->self_loops,
                                      &p->neighbours);
}

// Says Hello with the parameter tensors and waits for the arena.
static int attach(struct program *p)
{
    struct sl_announcement announcement;
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    SL_TRY(sl_announce_model(&p->model, &announcement, &hello));
    SL_FAILPOINT(TRAINER_START);
    const int rc = sl_worker_attach(&p->worker, &hello);
    sl_announcement_fini(&announcement);
    return rc;
}

static int open_reader(struct program *p, enum sl_thread thread, uint32_t depth,
                       struct sl_reading *out)
{
    const struct sl_reading_spec spec = {
        .dataset = &p->dataset,
        .pulse = {.arena = &p->worker.arena,
                  .stop = &p->worker.stop,
                  .slot = p->worker.stats,
                  .thread = thread},
        .drive = sl_features_kinds[p->config.store.features].drive,
        .depth = depth,
        .arena = &p->worker.arena,
        .worker = p->worker.id,
    };
    return sl_reading_open(out, &spec);
}

static void tell_drive(const struct sl_row_profile *f)
{
    sl_log_info("features: rows are read from the drive through %s, %s the page cache, up to %u "
                "reads at a time",
                sl_row_way_name(f->way), f->direct ? "past" : "through", f->depth);
    if (f->latency_s > 0)
        sl_log_info("features: a single read takes %.0f us; the drive serves %.0f reads a second, "
                    "with %.1f of them under way at a time",
                    f->latency_s * 1e6, f->reads_per_s, f->latency_s * f->reads_per_s);
}

// Rows are read by the thread that fetches, by the one that extracts those that found no place in
// the cache, and before they run by the one that measures; and by the one that computes, for
// inference.
static int open_store(struct program *p)
{
    const enum sl_features features = p->config.store.features;
    if (!sl_features_kinds[features].reads)
        return SL_OK;
    const struct sl_row_cache rows = sl_arena_rows(&p->worker.arena);
    const uint32_t depth = atomic_load(&rows.head->depth);
    SL_TRY(open_reader(p, SL_THREAD_EXTRACT, depth, &p->extracts));
    p->gather.source.reader = &p->extracts;
    p->gather.source.shared = rows;
    struct sl_row_profile f = {0};
    if (p->extracts.drive)
        f = sl_row_reader_profile(p->extracts.drive);
    SL_TRY(open_reader(p, SL_THREAD_FETCH, f.depth, &p->fetches));
    SL_TRY(open_reader(p, SL_THREAD_WORK, f.depth, &p->infers));
    p->features =
        (struct sl_row_source){.dataset = &p->dataset, .reader = &p->infers, .shared = rows};
    p->model.features = &p->features;
    if (p->dataset.shard.count)
        sl_log_info("features: rows of %llu of %llu vertices are asked for from other nodes",
                    (unsigned long long)(p->dataset.n_nodes - sl_dataset_rows(&p->dataset)),
                    (unsigned long long)p->dataset.n_nodes);
    if (p->extracts.drive)
        tell_drive(&f);
    if (p->extracts.drive && depth == 0) {
        atomic_store(&rows.head->latency_ns, (uint64_t)(f.latency_s * 1e9));
        atomic_store(&rows.head->reads_per_s, (uint64_t)f.reads_per_s);
        atomic_store(&rows.head->depth, f.depth);
    }
    return SL_OK;
}

static int place_features(struct program *p)
{
    const struct sl_store_plan plan = {
        .way = (enum sl_store_way)p->worker.arena.h->spec.store_way,
        .pins = p->access.part[0] != NULL,
        .fd = p->worker.fd.shared[SL_SHARED_FEATURES],
        .threads = (int)p->config.devices[p->worker.device].n_cores,
        .stops = &p->worker.stop,
    };
    if (p->compute.device->is_host)
        return SL_OK;
    const struct sl_arena *a = &p->worker.arena;
    SL_TRY(sl_gather_place(&p->gather, sl_seat(a, sl_seat_trainer(a, p->worker.device)),
                           &p->dataset, &plan));
    p->model.resident.stays = p->gather.store.copy.data;
    return SL_OK;
}

// Rows are read all over their files, and where its page lies is looked up for each. A page then
// comes from the disk with the 2 MiB around it: well where all of them stay.
static void ask_for_large_pages(const struct sl_dataset *ds)
{
    if (sl_features_bytes(ds) > sl_device_memory_available() / 2)
        return;
    for (uint32_t i = 0; i < sl_row_ranges(ds); i++) {
        const struct sl_row_range of = sl_row_range(ds, i);
        sl_advise(of.rows, of.n * of.row_bytes, MADV_HUGEPAGE);
    }
}

// Learned rows, which the broker has made.
static int open_rows(struct program *p)
{
    const int *fd = p->worker.fd.shared;
    if (sl_config_learned_dim(&p->config) == 0)
        return SL_OK;
    SL_TRY(sl_row_table_open(fd[SL_SHARED_ROWS], fd[SL_SHARED_ROWS_WORK], &p->rows));
    const struct sl_row_table_shape *shape = &p->rows.shape;
    if (shape->dim != p->model.learned.dim ||
        shape->n_rows != sl_dataset_learned_rows(&p->dataset) ||
        shape->n_state != sl_sync_state_arrays(p->config.optimizer.kind) ||
        shape->n_slots != p->config.updates.batches_per_update)
        return sl_fail(SL_EPROTO,
                       "learned rows: %llu of %u numbers, wanted %llu of %u: broker and "
                       "trainer are not of the same build",
                       (unsigned long long)shape->n_rows, shape->dim,
                       (unsigned long long)sl_dataset_learned_rows(&p->dataset),
                       p->model.learned.dim);
    p->model.learned.n_rows = shape->n_rows;
    return SL_OK;
}

// The graph of the test, which the broker has made.
static int open_graph(struct program *p)
{
    if (!sl_config_widens(&p->config, &p->dataset))
        return SL_OK;
    SL_TRY(sl_wider_graph_open(p->worker.fd.shared[SL_SHARED_WIDER_GRAPH], &p->dataset,
                               &p->dataset.edges[SL_SPLIT_VAL], &p->wider));
    SL_TRY(sl_model_prepare_graph(&p->model, &p->config, &p->wider.dataset,
                                  (int)p->config.devices[p->worker.device].n_cores, &p->wider_loops,
                                  &p->wider_neighbours, &p->wider_graph));
    p->model.wider = &p->wider_graph;
    return SL_OK;
}

static int work(void *ctx)
{
    struct program *p = ctx;
    SL_TRY(prepare(p));
    SL_TRY(attach(p));
    sl_arena_access_open(&p->access, p->compute.device, &p->worker.arena);
    const bool reads = sl_features_kinds[p->config.store.features].reads;
    sl_gather_init(&p->gather, &p->compute, &p->dataset,
                   reads ? SL_GATHER_STAGED : SL_GATHER_FASTER);
    p->gather.counts_loops = sl_model_drops_loops(&p->model);
    p->gather.half = sl_model_take_half(&p->model, &p->dataset);
    if (p->gather.half)
        sl_log_info("features: rows stay float16 until the first layer has read them");
    // What a cache holds is read there, and counted. What memory has no room for is read ahead of
    // the computing thread.
    const enum sl_features fits = sl_features_choose(&p->dataset, sl_device_memory_available());
    if (p->compute.device->is_host && !reads && !sl_features_kinds[fits].reads)
        ask_for_large_pages(&p->dataset);
    p->gather.near_rows = !reads && !sl_features_kinds[fits].reads &&
                          !sl_cache_keeps(p->config.cache.policy) &&
                          sl_model_take_table(&p->model, &p->dataset);
    p->gather.half |= p->gather.near_rows && p->model.half;
    SL_TRY(place_features(p));
    SL_TRY(open_store(p));
    SL_TRY(open_rows(p));
    SL_TRY(open_graph(p));
    const struct sl_trainer_spec spec = {
        .arena = &p->worker.arena,
        .worker = p->worker.id,
        .device = p->worker.device,
        .config = &p->config,
        .dataset = &p->dataset,
        .collective = p->compute.device->is_host ? NULL : sl_plugin_opened()->collective,
        .model = &p->model,
        .gather = &p->gather,
        .rows = p->rows.head ? &p->rows : NULL,
        .fetches = reads ? &p->fetches : NULL,
        .stats = p->worker.stats,
        .stop = &p->worker.stop,
    };
    struct sl_trainer_probe probe;
    SL_TRY(sl_trainer_probe(&spec, &probe));
    p->worker.step_bytes = probe.step_bytes;
    p->worker.t_train_ns = probe.train_ns;
    SL_TRY(sl_worker_ready(&p->worker));
    return sl_trainer_run(&spec);
}

static void release(void *ctx)
{
    struct program *p = ctx;
    sl_reading_close(&p->extracts);
    sl_reading_close(&p->fetches);
    sl_reading_close(&p->infers);
    sl_row_source_fini(&p->features);
    sl_arena_access_close(&p->access);
    sl_typed_pieces_fini(&p->pieces);
    sl_model_fini(&p->model);
    sl_gather_fini(&p->gather); // the copy of features, which inference may have pinned, too
    sl_neighbours_fini(&p->neighbours);
    sl_self_loops_free(&p->self_loops);
    sl_neighbours_fini(&p->wider_neighbours);
    sl_self_loops_free(&p->wider_loops);
    sl_wider_graph_close(&p->wider);
    sl_objective_fini(&p->objective);
    sl_link_sets_fini(&p->links);
    sl_dataset_close(&p->dataset);
    sl_config_forget_relations(&p->config);
    sl_row_table_close(&p->rows);
}

int main(int argc, char **argv)
{
    static struct program p; // too large for a stack
    sl_dataset_name_faults("sluice-trainer");
    if (sl_devices_asked(argc, argv))
        return sl_devices_main();
    if (sl_predict_asked(argc, argv))
        return sl_predict_main(argc, argv);
    return sl_worker_main(&p.worker, "trainer", argc, argv, work, release, &p);
}
