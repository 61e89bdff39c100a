/*
 * sluice.h - mini-batches for a training loop of your own: samplers, queue, caches and statistics
 * are processes of sluice, the model is yours.
 *
 *     struct sluice_options o = {.size = sizeof o, .job = "{\"dataset\": \"data/products\", ...}"};
 *     struct sluice_batch b = {.size = sizeof b};
 *     sluice_loader *loader;
 *     if (sluice_open(&o, &loader) < 0)
 *         fprintf(stderr, "%s\n", sluice_error());
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         while ((rc = sluice_next(loader, 1000, &b)) != SLUICE_END) {
 *             ...                                    // SLUICE_TIMEOUT; below 0: an error
 *             sluice_features(loader, &b, x, bytes); // (n_nodes, feat_dim)
 *             ...                                    // forward, backward, update
 *             sluice_done(loader, b.id);
 *         }
 *     sluice_close(loader);
 *
 * RESULTS. A function returns SLUICE_OK, one of the other values from 0 on that it names, or an
 * error below 0, whose sentence is sluice_error(): what was being done, what was found, what was
 * wanted, what to do; the words of the command line.
 *
 * STRUCTURES begin with `size`: the caller writes its sizeof there. A later version may append
 * fields and knows by `size` which of them the caller has. Fields that are not set are 0.
 *
 * LIFETIMES. A batch is lent to the caller from sluice_next() until sluice_done() or
 * sluice_return() of it, or sluice_close(); so long its arrays may be read. They lie in memory that
 * samplers write to, and are read-only. Any number may be held while that memory lasts (the key
 * "arena.memory" of the job): then sluice_next() says so. A batch that was lent and never done,
 * since its process has died or has closed the loader, is lent again, to whoever comes next.
 *
 * THREADS AND PROCESSES. A loader may be used by any thread, by one at a time: a second one gets an
 * error. Several loaders in a process work side by side. After fork() the loader is the parent's:
 * in the child every call says so, and sluice_close() does nothing.
 *
 * The library installs no signal handler, writes nothing to standard output or error, changes
 * neither the working directory nor the cores that a thread may run on, and never ends the process.
 * What it starts ends with the loader or, however that may come about, with the process.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

// Functions and structures of this header since; a library that has them is of this version or a
// later one (sluice_version()).
#define SLUICE_API_VERSION 8

enum { SLUICE_MAX_HOPS = 8 };

enum sluice_result {
    SLUICE_OK = 0,
    SLUICE_TIMEOUT = 1, // nothing yet: call again
    SLUICE_END = 2,     // of the epoch

    SLUICE_EINVAL = -1,     // an argument or the job is wrong
    SLUICE_EFORMAT = -2,    // a file is not what it should be
    SLUICE_ENOENT = -3,     // data set, job or program is not there
    SLUICE_EACCESS = -4,    // ... may not be used
    SLUICE_EEXIST = -5,     // the output directory is taken
    SLUICE_ENOMEM = -6,     // of the machine, or all of the arena is in the caller's hands
    SLUICE_EIO = -7,        // reading failed
    SLUICE_ESYS = -8,       // another call of the system failed
    SLUICE_ERANGE = -9,     // a number, or a buffer, is too small or too large
    SLUICE_ETIMEDOUT = -10, // the job did not start, or no seat was free, within the bound
    SLUICE_EABORTED = -11,  // the job was stopped
    SLUICE_EBUSY = -12,     // all seats are taken, or another thread is in the loader
    SLUICE_ESTALE = -13,    // the batch is not, or no longer, lent to this loader
    SLUICE_EUNSUPPORTED = -14,
    SLUICE_EPROTO = -15,  // library and job are of different versions
    SLUICE_EFAILED = -16, // the job, or its broker, is gone
    SLUICE_EDEVICE = -17,
    SLUICE_ECHANGED = -19, // the data set was changed under the job
};

enum sluice_type {
    SLUICE_NONE = 0,
    SLUICE_F32 = 1,
    SLUICE_F16 = 2, // IEEE half
    SLUICE_I32 = 3,
};

typedef struct sluice_loader sluice_loader;

// --- opening -------------------------------------------------------------------------------------

struct sluice_options {
    size_t size;
    /*
     * Either: a job, as JSON text (config/README.md has its keys). model.kind is "external", also
     * where nothing is said of it. Paths are relative to the working directory. A broker and
     * samplers are started for this loader alone. Files are left only where "output" names a
     * directory for them.
     */
    const char *job;
    const char *origin; // what messages call that text, such as the name of its file; NULL: "job"
    // Or: the output directory, or the name, of a job of this user that runs; of one on several
    // nodes what it has on this one.
    const char *attach;
    int32_t rank; // the seat to take on this node, from 0; -1: any that is free. With `job`: also 0
    uint32_t start_timeout_ms; // until the first batch can be waited for; 0: 120 s
    /*
     * 1: a thread gathers the features of the next batch while the caller works on this one, in one
     * of two buffers of the library's (sluice_features_view()): of the GPU's memory where the
     * seat's device is one, of which a process can have one. At most two batches can be held then
     * whose arrays were not taken (sluice_take()).
     * 0: sluice_features() gathers, in the thread that calls it. Features of float16 and an odd
     * width are never gathered ahead.
     */
    uint32_t prefetch;
    // Folder of the program sluice-broker; NULL: $SLUICE_PROGRAMS, else the library's own folder,
    // ../bin and ../../bin from there, else PATH.
    const char *programs;
    // 1: with `prefetch`, what sluice_take() gives is made ahead, too. 0: when it is called. 2: as
    // 1, and sluice_next() does not wait for the features, if they are gathered into this process's
    // memory: those of sluice_take() are there after sluice_wait().
    uint32_t arrays;
    // Asked by sluice_open() in its thread, every 100 ms or sooner, while it waits: not 0 ends that
    // with SLUICE_EABORTED. NULL: nobody is asked.
    int (*on_wait)(void *context);
    void *context;
};

// Starts or attaches. Nothing is left behind when it fails. Takes as long as the samplers take to
// load the graph.
SLUICE_API int sluice_open(const struct sluice_options *options, sluice_loader **out);

// Gives back what is held, and leaves the seat; the loader's own job is stopped and waited for.
// NULL is allowed. Views are invalid afterwards.
SLUICE_API void sluice_close(sluice_loader *loader);

// --- what the batches are like -------------------------------------------------------------------

/*
 * A graph with types (common/data/README.md) has one numbering of all vertices; those of a type are
 * a range of it. Each vertex is of one type, and each edge of one relation, which goes from a type
 * to a type. Type 0 is the one with labels, whose vertices' ids are their numbers in it.
 */
struct sluice_vertex_type {
    const char *name;
    uint64_t first, n; // its vertices are first to first + n - 1
    uint32_t feat_dim; // 0: no features
    uint32_t feat_type;
    uint64_t feat_row_bytes;
};

// A relation of the graph; where walks draw one of "sampler.metapaths", which has no edges there.
struct sluice_relation {
    const char *name;
    uint32_t source, target;         // types
    uint64_t first_edge, n_edges;    // its edges are indices.npy[first_edge] and so on
    int64_t fanout[SLUICE_MAX_HOPS]; // (n_hops) of the job, as in struct sluice_info
};

struct sluice_info {
    size_t size;
    uint64_t n_nodes, n_edges; // of the graph
    uint64_t n_items;          // seed vertices in an epoch; of a job of links pairs
    uint64_t n_batches;        // mini-batches in an epoch, of all ranks
    uint64_t n_own_batches;    // ... of this rank. Without fixed shares: all of them
    uint64_t seed;
    uint32_t batch_size; // seeds, or pairs of links; the last batch may have fewer
    uint32_t n_hops;
    int64_t fanout[SLUICE_MAX_HOPS]; // (n_hops) next to the seeds first; -1: all neighbours
    uint32_t feat_dim;               // 0: the data set has no features
    uint32_t feat_type;              // enum sluice_type: F32 or F16, as the data set has them
    uint64_t feat_row_bytes;
    uint32_t label_type; // I32: classes; F32: n_targets numbers; NONE: the data set has no labels
    uint32_t n_targets;  // numbers a seed; 0 where labels are classes
    uint32_t n_classes;
    uint32_t world, rank; // seats of the job, on all nodes; which of them this loader has
    uint32_t has_edge_ids, has_weights;
    uint32_t prefetch;    // features are gathered ahead
    int64_t broker;       // process number
    const char *dataset;  // directory; strings are valid until sluice_close()
    const char *job_name; // what `sluice stats` and `sluice scale` know the job by
    const char *output;   // the job's directory; "": it has none, and leaves no files
    // The CUDA device that features are gathered into the memory of, ahead; -1: this process's own.
    int32_t feat_device;
    uint32_t same_order; // all epochs have the same order ("order.kind" "listed")
    uint32_t has_pairs,
        per_positive; // a job of links; negatives of each pair ("task.per_positive")
    // Of a graph with types, whose feat_dim above is 0; else 0 and NULL.
    uint32_t n_types, n_relations;
    const struct sluice_vertex_type *types;  // (n_types) valid until sluice_close()
    const struct sluice_relation *relations; // (n_relations)
    // Of a job of links on such a graph: the relation that its pairs are of; else n_relations.
    uint32_t linked;
};

SLUICE_API int sluice_get_info(sluice_loader *loader, struct sluice_info *out);

// --- batches -------------------------------------------------------------------------------------

/*
 * The sampled edges of a hop, by destination. Vertices have local numbers: positions in `nodes` of
 * the batch. Destinations are 0 .. n_dst - 1; neighbours of destination i are
 * indices[indptr[i] .. indptr[i + 1]). With "sampler.expand" "new" hop h + 1 has the edges of hop h
 * too, in front: the last hop has all of the batch, each once. With "sampler.subgraph" there is one
 * hop more than `n_hops` of sluice_info: it has the subgraph's edges, and a row for each vertex.
 */
struct sluice_hop {
    uint32_t n_dst, n_edges;
    const uint32_t *indptr;   // (n_dst + 1)
    const uint32_t *indices;  // (n_edges) local
    const uint64_t *edge_ids; // (n_edges) places in indices.npy, or NULL ("sampler.edge_ids")
    const float *weights;     // (n_edges) visits of random walks, or NULL
};

/*
 * Of a batch of a graph with types: `nodes` are type after type, a type's in the order in which
 * they were met, so its seeds first; what goes by seed is type after type, too. Local numbers of
 * vertices are numbers within their type's part.
 */
struct sluice_part {
    uint32_t first;                        // its vertices are nodes[first] and so on
    uint32_t n_after[SLUICE_MAX_HOPS + 1]; // (n_hops + 1) those met after so many hops; [0]: seeds
};

// The edges of one relation in one hop, of which there is one at least. With "sampler.expand" "new"
// a relation's in hop h + 1 begin with those in hop h: the last hop has all of the batch.
struct sluice_run {
    uint32_t hop, relation;
    uint32_t n_dst, n_edges;  // rows: the vertices of the target type that were met before the hop
    const uint32_t *indptr;   // (n_dst + 1)
    const uint32_t *indices;  // (n_edges) of the source type
    const uint64_t *edge_ids; // (n_edges) places in indices.npy, or NULL
    const float *weights;     // (n_edges) visits of random walks, or NULL
};

struct sluice_batch {
    size_t size;
    uint64_t id;         // for sluice_done(), sluice_return()
    uint64_t number;     // in its epoch, from 0
    uint64_t first_item; // place of its first seed, or pair, in the epoch's order
    uint32_t epoch;      // from 0
    uint32_t n_seeds;
    uint32_t n_nodes; // input vertices: those whose features are wanted
    uint32_t n_hops;
    uint64_t n_edges; // of all hops
    // (n_nodes) vertices of the data set, seeds first, then by hop; with "sampler.disjoint" each as
    // often as seeds reach it
    const uint32_t *nodes;
    const uint32_t *n_nodes_after; // (n_hops + 1): of `nodes`, those met after so many hops; [0] is
                                   // n_seeds, the last one n_nodes
    // Of seeds: (n_seeds) int32, -1 unlabelled; or (n_seeds, n_targets) float, NaN unlabelled.
    // NULL: the data set has none.
    const void *labels;
    struct sluice_hop hop[SLUICE_MAX_HOPS]; // (n_hops) hop[0] is next to the seeds
    /*
     * Of a job of links ("task.kind" "link"), whose seeds are the ends of its pairs, each vertex
     * once, as the pairs name them; else 0 and NULL. The first n_positive pairs are edges; negative
     * j of pair i is pair n_positive + i * per_positive + j, from the same source.
     */
    uint32_t n_pairs, n_positive, per_positive;
    const uint32_t *pairs; // (n_pairs, 2) source, target: numbers of seeds
    // (n_pairs) of a positive its weight in the data set, or 1; of a negative 1, or 0: its source
    // has no vertex that could be the target, which is the source itself, or if that is of another
    // type the positive's.
    const float *pair_weights;
    // Of a graph with types, whose hop[] have their numbers n_dst and n_edges alone; else 0, NULL.
    uint32_t n_types, n_runs;
    const struct sluice_part *parts; // (n_types)
    const void *block;               // for sluice_get_run()
};

// Edges `number` of n_runs, by hop and then by relation; what it has is valid as long as the batch.
SLUICE_API int sluice_get_run(const struct sluice_batch *batch, uint32_t number,
                              struct sluice_run *out);

/*
 * Waits up to timeout_ms for the next batch of the epoch. SLUICE_OK; SLUICE_TIMEOUT; SLUICE_END
 * when this loader has had its last one (those that are held stay so): the next call begins the
 * next epoch. SLUICE_ENOMEM when the batches that the caller holds leave no memory for another, and
 * nothing has come for some seconds. SLUICE_EABORTED when the job is over, SLUICE_EFAILED when its
 * broker has died, with the reason: no batch comes any more.
 */
SLUICE_API int sluice_next(sluice_loader *loader, uint32_t timeout_ms, struct sluice_batch *out);

// The batch has been trained on: nobody gets it again. Once: SLUICE_ESTALE for one that is not
// held. SLUICE_EABORTED or SLUICE_EFAILED, as of sluice_next, where the job has ended meanwhile.
SLUICE_API int sluice_done(sluice_loader *loader, uint64_t id);

// The batch has not been used: it is lent again, perhaps to this loader; after the end of its epoch
// it is the first of what comes then. SLUICE_ESTALE.
SLUICE_API int sluice_return(sluice_loader *loader, uint64_t id);

/*
 * The next batch will be that of this number in `epoch`, or this rank's first from there: to go on
 * where another loader was, or to leave an epoch. This rank's batches before it are never lent
 * (without fixed shares: nobody's), but for those that are held. Nothing happens where it is the
 * one that would come anyway. This only goes forward: SLUICE_EINVAL for a place that is behind.
 */
SLUICE_API int sluice_start(sluice_loader *loader, uint32_t epoch, uint64_t number);

// --- features ------------------------------------------------------------------------------------

/*
 * Copies the features of the batch's vertices to `to`, in their order: (n_nodes, feat_dim) of
 * feat_type, bit for bit those of the data set. `bytes` is the room there: SLUICE_ERANGE when it is
 * less than n_nodes * feat_row_bytes. Of a graph with types the rows of type 0, then those of type
 * 1 and so on, of each from the next multiple of 64 bytes on, and the room is such a multiple, too.
 */
SLUICE_API int sluice_features(sluice_loader *loader, const struct sluice_batch *batch, void *to,
                               size_t bytes);

// With `prefetch`: the same rows where they were gathered, which is the memory of a GPU where the
// loader's seat is on one (feat_device), to be read until the batch is done or returned; what the
// caller's GPU does with them must be over then, too. Without it *rows is NULL.
SLUICE_API int sluice_features_view(sluice_loader *loader, const struct sluice_batch *batch,
                                    const void **rows);

// --- arrays to keep ------------------------------------------------------------------------------

// The vertices of a type in a batch.
struct sluice_type_arrays {
    uint64_t n_nodes;
    int64_t *nodes; // (n_nodes) numbers within the type; a part of all `nodes`
    void *features; // (n_nodes, feat_dim) of its feat_type; NULL: none
};

// The edges of a relation in a batch.
struct sluice_relation_arrays {
    uint64_t n_edges;
    // (n_hops) edges that there were after hop h and its rows; the last one is n_edges
    uint64_t n_after[SLUICE_MAX_HOPS];
    int64_t *edges;    // (2, n_edges): sources, then destinations; numbers within the types' parts
    int64_t *edge_ids; // (n_edges) within the relation, whose edges stand by target; or NULL
    float *weights;    // (n_edges) visits of random walks, or NULL
};

/*
 * A batch as PyTorch wants it, of a job with "sampler.expand" "new": numbers of 64 bits, and the
 * rows, in memory that is the caller's until sluice_free(), whatever becomes of batch and loader.
 * It may be written to. Arrays begin at multiples of 64 bytes, those of 64 bits in one piece, of
 * which `nodes` is the first.
 */
struct sluice_arrays {
    size_t size;
    void *memory;      // for sluice_free()
    uint64_t n_edges;  // of all hops, each once
    int64_t *nodes;    // (n_nodes)
    int64_t *edges;    // (2, n_edges): sources, then destinations; local, by destination
    int64_t *edge_ids; // (n_edges), or NULL
    float *weights;    // (n_edges), or NULL
    void *labels;      // (n_seeds) int64, or (n_seeds, n_targets) float, or NULL
    // (n_nodes, feat_dim) of feat_type. NULL: the data set has none, or they are in a GPU's memory
    // (sluice_features_view()).
    void *features;
    // (n_seeds) of the seeds in the list that an epoch goes through; (n_positive) of the pairs
    int64_t *places;
    // (n_nodes) number of the vertex's seed, with "sampler.disjoint"; or NULL
    int64_t *seed_of;
    // (2, n_pairs) sources, then targets, of a graph with types numbers within their types' parts;
    // or NULL, as the next
    int64_t *pairs;
    float *pair_weights; // (n_pairs)
    // Of a graph with types, else NULL. `nodes` are numbers within their types then, `edges` and
    // `edge_ids` are NULL, and `features` is where the first type's are.
    struct sluice_type_arrays *types;         // (n_types)
    struct sluice_relation_arrays *relations; // (n_relations)
};

// Once for each batch, which stays held; SLUICE_EINVAL after that. No copy is made of features that
// were gathered ahead, and the batch holds none of the two buffers any more; sluice_features() has
// none of it then. SLUICE_EUNSUPPORTED for a job with other edges in each hop.
SLUICE_API int sluice_take(sluice_loader *loader, const struct sluice_batch *batch,
                           struct sluice_arrays *out);

// Waits up to timeout_ms for the features of a batch that is held, with `arrays` 2. SLUICE_OK;
// SLUICE_TIMEOUT; SLUICE_ESTALE; otherwise there will be none, and sluice_error() says why.
SLUICE_API int sluice_wait(sluice_loader *loader, uint64_t id, uint32_t timeout_ms);

// By any thread, also after sluice_close(). NULL is allowed. Nothing happens in a process that was
// forked from the loader's.
SLUICE_API void sluice_free(void *memory);

// --- batches of given seeds ----------------------------------------------------------------------

/*
 * Draws batches of seeds that the caller names, when it asks and in its own thread: no process is
 * started, nothing is drawn ahead. For loops that another library orders, and for a batch beside an
 * epoch. One thread at a time. A process that was forked uses its copy as the parent does its own.
 */
typedef struct sluice_sampler sluice_sampler;

struct sluice_sampler_options {
    size_t size;
    const char *job;    // as of struct sluice_options: "dataset", "sampler" and "seed" of it count
    const char *origin; // what messages call that text; NULL: "job"
    uint32_t features;  // 1: sluice_arrays.features of a batch are gathered
};

// Maps the data set. The errors of a job file and of a data set.
SLUICE_API int sluice_sampler_open(const struct sluice_sampler_options *options,
                                   sluice_sampler **out);
SLUICE_API void sluice_sampler_close(sluice_sampler *sampler); // NULL is allowed

// Of a run and a seat of the job (n_items, n_batches, world, rank, broker, ...) nothing is set.
SLUICE_API int sluice_sampler_get_info(sluice_sampler *sampler, struct sluice_info *out);

/*
 * Draws the batch of `seeds` (n_seeds), different vertices; those of a graph with types by type, in
 * the order of types. It is a function of the job's seed,
 * epoch, number and the seeds: those of a batch of the job's training give that very batch.
 * *batch has id 0, and views of the sampler's memory until its next draw or its end. *arrays, which
 * may be NULL, is as of sluice_take(). SLUICE_EINVAL for a seed that is no vertex, or twice there.
 */
SLUICE_API int sluice_sampler_draw(sluice_sampler *sampler, uint32_t epoch, uint32_t number,
                                   const uint32_t *seeds, uint32_t n_seeds,
                                   struct sluice_batch *batch, struct sluice_arrays *arrays);

// --- statistics ----------------------------------------------------------------------------------

// Since the loader was opened.
struct sluice_stats {
    size_t size;
    uint64_t batches;  // done
    uint64_t returned; // given back
    uint64_t held;     // now
    uint64_t edges;
    uint64_t feature_bytes; // gathered
    uint64_t wait_ns;       // in sluice_next(), for a batch
    uint64_t gather_ns;     // gathering features, in whichever thread
    uint64_t user_ns;       // between sluice_next() and sluice_done(), but for gathering
    uint32_t epoch;         // of the last batch
    // With fixed shares: the lowest rank whose batches this epoch still needs, and whose seat
    // nobody has. -1: none.
    int32_t absent;
};

SLUICE_API int sluice_stats(sluice_loader *loader, struct sluice_stats *out);

// --- errors --------------------------------------------------------------------------------------

// The sentence of this thread's last error. Valid until its next one.
SLUICE_API const char *sluice_error(void);

SLUICE_API const char *sluice_version(void); // such as "0.2.0"

#ifdef __cplusplus
}
#endif

#endif
