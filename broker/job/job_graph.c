// job_graph.c - what a job says of its graph, and the graph that test edges are scored by, where it
// has the validation edges.
#include "broker/job/job.h"

#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/sampler_kind.h"
#include "common/base/threads.h"
#include "common/data/weightless.h"
#include "common/text/units.h"

// Made before workers start, which map it. Nothing of it is lost with one of them, and a job that
// goes on makes the same one again.
int sl_job_make_graph(struct sl_job *job)
{
    const struct sl_config *c = &job->config;
    const struct sl_pair_list *edges = &job->dataset.edges[SL_SPLIT_VAL];
    const uint64_t begin = sl_now_ns();
    struct sl_dataset ds = job->dataset; // of which workers hide what has no weight
    char bytes[SL_UNITS_BYTES];
    if (!sl_config_widens(c, &job->dataset))
        return SL_OK;
    if (sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_BY_WEIGHT)
        SL_TRY(sl_weightless_drop(&ds, false, sl_threads_default()));
    close(job->shared_fd[SL_SHARED_WIDER_GRAPH]);
    SL_TRY(job->shared_fd[SL_SHARED_WIDER_GRAPH] = sl_rundir_nameless(c->output));
    int rc =
        sl_wider_graph_make(job->shared_fd[SL_SHARED_WIDER_GRAPH], &ds, edges, sl_threads_default(),
                            "free space on the drive of output, or remove "
                            "evaluate.val_edges_as_input",
                            &job->widened);
    if (rc < 0)
        return sl_fail_prefix(rc, "evaluate.val_edges_as_input");
    sl_joblog_write(&job->log, SL_LOG_INFO, "the test's graph: %s in a file, made in %.2f s",
                    sl_units_exact_bytes(bytes, job->widened.bytes),
                    (double)(sl_now_ns() - begin) * 1e-9);
    return SL_OK;
}

// For who samples by weight an edge of weight 0 is none.
static void emit_weightless(struct sl_job *job)
{
    const struct sl_dataset *ds = &job->dataset;
    char none[SL_UNITS_BYTES], all[SL_UNITS_BYTES], vertices[SL_UNITS_BYTES];
    if (!(sl_sampler_flags[job->config.sampler.kind] & SL_SAMPLER_BY_WEIGHT) ||
        ds->weightless_edges == 0)
        return;
    sl_joblog_announce(
        &job->log,
        "sampling by weight: %s of %s edges have weight 0 and do not exist for this "
        "job, in training, evaluation and predictions; vertices with in-edges of weight "
        "0 alone: %s",
        sl_units_grouped(none, ds->weightless_edges), sl_units_grouped(all, ds->n_edges),
        sl_units_grouped(vertices, ds->weightless_vertices));
}

// A list that leaves no neighbour out is exact for the evaluated vertices, and may be large.
static void emit_evaluation(struct sl_job *job)
{
    const struct sl_config *c = &job->config;
    char n[SL_UNITS_BYTES];
    if (job->dataset.typed.n_types == 0 || !sl_config_evaluates_all(c))
        return;
    sl_joblog_announce(&job->log,
                       "evaluation: mini-batches of %s vertices with all their neighbours "
                       "(evaluate.batch_size bounds their memory; evaluate.fanout \"full\" goes "
                       "layer by layer)",
                       sl_units_grouped(n, c->evaluate.batch_size));
}

void sl_job_tell_graph(struct sl_job *job)
{
    emit_weightless(job);
    emit_evaluation(job);
    char n[SL_UNITS_BYTES], added[SL_UNITS_BYTES];
    if (job->widened.bytes > 0)
        sl_joblog_announce(&job->log,
                           "the test's graph has the %s validation edges%s: %s edges more than the "
                           "data set's (evaluate.val_edges_as_input)",
                           sl_units_grouped(n, job->dataset.edges[SL_SPLIT_VAL].n),
                           job->widened.both_ways ? " and their reverses" : "",
                           sl_units_grouped(added, job->widened.n_added));
}
