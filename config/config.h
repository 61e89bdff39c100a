/*
 * config.h - the job file as a C struct, validated.
 *
 * One table (config/keys.c) knows every key: path, type, bounds, default, meaning and where its
 * value lives in struct sl_config. Parsing, "did you mean", --set, the resolved config.json and
 * config/job.schema.json all come from that table.
 */
#ifndef SL_CONFIG_CONFIG_H
#define SL_CONFIG_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/sampler_kind.h"
#include "common/data/cache_kind.h"
#include "common/data/measure_kind.h"
#include "common/data/order_kind.h"
#include "common/data/features_kind.h"
#include "config/fanout_names.h"
#include "config/metapath_names.h"
#include "config/model_kinds.h"

struct cJSON;
struct sl_cores; // common/device/cores.h
struct sl_gpu;   // common/device/plugin.h
struct sl_gpu_report;

enum {
    SL_CONFIG_MAX_LAYERS = 8,
    SL_CONFIG_MAX_DEVICES = 64,
    SL_CONFIG_NAME_BYTES = 128,
    SL_CONFIG_PATH_BYTES = 4096,
    SL_CONFIG_MAX_CORES = 256,  // cores of one device
    SL_CONFIG_CORES_MAX = 1024, // highest core number + 1
    SL_CONFIG_MAX_WORKERS = 64, // samplers, and trainers
    SL_CONFIG_MAX_NODES = 128,
    SL_CONFIG_MAX_SCHEDULE = 64,
    SL_CONFIG_MAX_WINDOW = 64, // batches that are looked ahead
    SL_CONFIG_MAX_CLASS_WEIGHTS = 256,
    SL_CONFIG_MAX_EPOCHS = 1000000,
    SL_CONFIG_EPOCHS_KEPT = 1000, // in the report, of a job for external trainers: the newest
};

// Where the rows that a model reads of its vertices come from: the data set's file; rows that are
// learned; both, side by side.
enum sl_input_origin { SL_INPUT_OF_FILE, SL_INPUT_LEARNED, SL_INPUT_OF_BOTH };
// Where learned rows lie.
enum sl_rows_place { SL_ROWS_IN_MEMORY, SL_ROWS_IN_FILE };
#define SL_MODEL_KIND(upper, lower) SL_MODEL_##upper,
enum sl_model_kind {
    SL_MODEL_KINDS(SL_MODEL_KIND) SL_MODEL_TYPED_KINDS(SL_MODEL_KIND) SL_MODEL_EXTERNAL
};
#undef SL_MODEL_KIND
// What a job learns: labels of vertices, or which pairs of them are linked.
enum sl_job_kind { SL_JOB_NODES, SL_JOB_LINKS };
enum sl_decoder_kind {
    SL_DECODER_DOT,
    SL_DECODER_COSINE,
    SL_DECODER_DISTMULT,
    SL_DECODER_BILINEAR,
    SL_DECODER_MLP,
};
enum sl_combine_kind { SL_COMBINE_PRODUCT, SL_COMBINE_CONCAT, SL_COMBINE_DIFFERENCE };
enum sl_pair_loss_kind {
    SL_PAIR_LOSS_BCE,
    SL_PAIR_LOSS_MARGIN,
    SL_PAIR_LOSS_BPR,
    SL_PAIR_LOSS_SOFTMAX,
};
enum sl_negatives_kind {
    SL_NEGATIVES_UNIFORM,
    SL_NEGATIVES_DEGREE,
    SL_NEGATIVES_BATCH,
    SL_NEGATIVES_GIVEN
};
enum sl_hard_kind { SL_HARD_NONE, SL_HARD_WALKS };
enum sl_strict_kind { SL_STRICT_NONE, SL_STRICT_GRAPH, SL_STRICT_ALL };
enum sl_exclude_kind { SL_EXCLUDE_NONE, SL_EXCLUDE_SELF, SL_EXCLUDE_REVERSE };
enum sl_aggregator { SL_AGGREGATOR_MEAN, SL_AGGREGATOR_MAX, SL_AGGREGATOR_GCN };
enum sl_activation_kind { SL_CONFIG_RELU, SL_CONFIG_ELU, SL_CONFIG_LEAKY_RELU };
enum sl_norm_kind { SL_NORM_NONE, SL_NORM_BATCH, SL_NORM_LAYER };
enum sl_jumping_kind { SL_JUMPING_NONE, SL_JUMPING_LAST, SL_JUMPING_CAT, SL_JUMPING_MAX };
enum sl_degrees_kind { SL_DEGREES_GRAPH, SL_DEGREES_BLOCK };
enum sl_relations_kind { SL_RELATIONS_SUM, SL_RELATIONS_MEAN };
enum sl_class_weights { SL_CLASS_WEIGHTS_NONE, SL_CLASS_WEIGHTS_BALANCED, SL_CLASS_WEIGHTS_LIST };
// Which vertices a hop draws neighbours of: all that its batch knows, or those that are new in it.
enum sl_expand { SL_EXPAND_ALL, SL_EXPAND_NEW };
enum sl_optimizer_kind { SL_OPTIMIZER_SGD, SL_OPTIMIZER_ADAM, SL_OPTIMIZER_ADAMW };
enum sl_decay_on { SL_DECAY_ALL, SL_DECAY_FIRST_LAYER };
enum sl_lr_schedule { SL_LR_CONSTANT, SL_LR_STEP, SL_LR_COSINE };
// Where hidden activations of all vertices lie while a job evaluates layer by layer. AUTO: in
// memory, or in a file where they do not fit.
enum sl_activations { SL_ACTIVATIONS_AUTO, SL_ACTIVATIONS_MEMORY, SL_ACTIVATIONS_FILE };
// When the test set is evaluated: once with the best parameters, beside each validation too, never.
enum sl_test_kind { SL_TEST_FINAL, SL_TEST_EACH, SL_TEST_NEVER };
enum sl_update_mode { SL_UPDATE_ORDERED, SL_UPDATE_ASYNC };
// How trainers' GPUs hold features together (XGNN 4.2; broker/sharding/shard_plan.h).
enum sl_store_placement {
    SL_STORE_AUTO,
    SL_STORE_ALONE,    // each GPU reads only what it holds itself
    SL_STORE_SOLVER,   // the best placement that common/store/placement.h finds
    SL_STORE_CLIQUES,  // GPUs that all reach one another share
    SL_STORE_ONE_COPY, // each row on one GPU; GPUs without a link to it read host memory
};
// Whether graph or features get the memory of a GPU that samples and trains, where it is short.
enum sl_store_preference { SL_PREFER_AUTO, SL_PREFER_GRAPH, SL_PREFER_FEATURES };
// By preference: the share of a GPU's free memory that the graph may take; the rest is its
// trainer's.
extern const double sl_config_graph_shares[SL_PREFER_FEATURES + 1];
extern const char *const sl_store_preference_words[]; // the same in the job file, then NULL
extern const char *const sl_store_placement_words[];  // the same in the job file, then NULL
// Where an update's gradients are summed: in the arena's parameter store, or by NCCL between GPUs.
enum sl_exchange_kind { SL_EXCHANGE_BOARD, SL_EXCHANGE_NCCL };
// Whose vertices the batches of external trainers are of, and who gets which.
enum sl_input_split { SL_INPUT_TRAIN, SL_INPUT_VAL, SL_INPUT_TEST, SL_INPUT_ALL };
enum sl_balance { SL_BALANCE_FIXED, SL_BALANCE_DYNAMIC };
// What a daemon does with a job that it finds interrupted.
enum sl_resume_policy { SL_RESUME_NEVER, SL_RESUME_AUTO };
// TF32 exists on GPUs only; a CPU device computes it as fp32.
enum sl_precision_kind {
    SL_CONFIG_FP32,
    SL_CONFIG_BF16,
    SL_CONFIG_TF32,
    SL_CONFIG_PRECISION_AUTO, // sl_config_precision() resolves it
};
extern const char *const sl_precision_words[]; // the same in the job file, then NULL
enum sl_device_kind { SL_DEVICE_CPU, SL_DEVICE_CUDA };
// Whether each CPU device keeps the cores that it names, or they are one pool that the broker
// divides among the workers.
enum sl_core_policy { SL_CORES_FIXED, SL_CORES_POOL };

// One entry of "devices".
struct sl_device_config {
    enum sl_device_kind kind;
    uint32_t index; // cuda: which GPU, as the CUDA runtime numbers them in this environment
    // Core numbers, ascending. cpu: the device itself. cuda: where its workers' threads run on the
    // host; none = not said, and sl_config_take_device() takes those that the process may use.
    uint32_t n_cores;
    uint16_t cores[SL_CONFIG_MAX_CORES];
    uint64_t memory_bytes; // budget; 0 = not limited (cuda: what the GPU has free)
};

// One entry of "schedule": the split changes when that batch of that epoch has been trained.
struct sl_schedule_config {
    uint32_t epoch;
    uint32_t batch; // 0 = at the epoch's beginning
    uint32_t samplers, trainers;
};

struct sl_config {
    char name[SL_CONFIG_NAME_BYTES];
    char dataset[SL_CONFIG_PATH_BYTES]; // as given: relative to the working directory

    struct {
        enum sl_job_kind kind;
        // Of a graph of several types; "": the relation of the data set's lists.
        char relation[sizeof(struct sl_relation_text)];
        uint32_t dim; // resolved
        enum sl_decoder_kind decoder;
        enum sl_combine_kind combine; // mlp
        uint32_t hidden;              // mlp; resolved
        enum sl_pair_loss_kind loss;
        double margin; // of that loss
        enum sl_negatives_kind negatives;
        uint32_t per_positive;
        struct { // of these negatives, hard ones (sampler/hard.h)
            enum sl_hard_kind kind;
            uint32_t per_positive, from_epoch;
            uint32_t first_rank, last_rank;
            uint32_t paths, length;
            double restart;
        } hard;
        enum sl_strict_kind strict;
        enum sl_exclude_kind exclude;
    } task;

    struct {
        enum sl_model_kind kind;
        uint32_t layers;
        uint32_t hidden;
        double dropout;
        double input_dropout;
        enum sl_activation_kind activation;
        enum sl_norm_kind norm;
        enum sl_jumping_kind jumping;
        enum sl_aggregator aggregator;      // graphsage
        uint32_t heads;                     // those with heads
        double attention_dropout;           // likewise; resolved: dropout unless given
        bool residual;                      // likewise
        double eps;                         // gin
        bool train_eps;                     // gin
        bool self_loops;                    // gcn
        enum sl_degrees_kind degrees;       // gcn, gin
        enum sl_relations_kind relations;   // rsage, rgat, rgatv2
        bool share_weights;                 // rgat, rgatv2: both ends of a relation have one weight
        bool edge_features;                 // relations have a term of their edges' features
        uint32_t bases, blocks;             // rgcn; 0: each relation has a weight of its own
        char weights[SL_CONFIG_PATH_BYTES]; // initial parameters, a .safetensors file; "" = none
    } model;

    struct {
        enum sl_input_origin kind;
        uint32_t dim; // of learned rows
        enum sl_rows_place place;
    } features;

    struct {
        enum sl_class_weights class_weights;
        uint32_t n_class_weights; // LIST
        double class_weight[SL_CONFIG_MAX_CLASS_WEIGHTS];
    } loss;

    struct {
        enum sl_input_split split; // external
    } input;

    struct {
        enum sl_sampler_kind kind;
        uint32_t n_fanout;
        int64_t fanout[SL_CONFIG_MAX_LAYERS]; // fanout[0] next to the seeds; -1 = all
        struct sl_fanout_names fanout_names;
        enum sl_expand expand;
        bool replace;
        bool edge_ids; // false with walk
        enum sl_subgraph subgraph;
        bool disjoint;
        enum sl_time_rule time; // others than NONE: disjoint as well
        bool time_strict;
        uint64_t batch_size;
        uint32_t paths, length; // walk
        double restart;
        struct sl_metapaths metapaths; // ... on a graph of several types
    } sampler;

    struct {
        enum sl_optimizer_kind kind;
        double lr;
        double weight_decay;
        enum sl_decay_on decay_on;
        double clip_norm;         // 0 = gradients are not clipped
        double momentum;          // sgd
        double beta1, beta2, eps; // adam, adamw
        enum sl_lr_schedule schedule;
        double warmup_epochs; // 0 = none; may be a fraction
        uint32_t step_epochs; // step
        double gamma;         // step
        double min_lr;        // cosine
    } optimizer;

    struct {
        enum sl_update_mode mode;
        uint32_t batches_per_update;    // 1 with async
        uint32_t staleness;             // async
        enum sl_exchange_kind exchange; // BOARD with async
    } updates;

    struct {
        enum sl_cache_policy policy;
        uint32_t presample_epochs; // of policies that count the first
        bool ratio_auto;
        double ratio; // of the vertices; 0 when auto
        bool report_optimal;
        // No key: why "auto" became this policy, a static text; NULL: the job names the policy.
        const char *why;
    } cache;

    struct {
        enum sl_order kind;
        uint32_t sequences; // 0 while they are "auto"
        bool sequences_auto;
        double excess_error;      // over a uniform shuffle's shuffling error
        uint32_t epochs_per_pass; // through the training vertices; 0 as 1
    } order;

    struct {
        enum sl_features features;
        uint64_t cache_bytes; // of features that are read; 0 = auto
        uint32_t window;      // batches
        enum sl_store_placement placement;
        bool feature_ratio_auto;
        double feature_ratio; // of the vertices, on all GPUs together; 0 when auto
        bool graph_ratio_auto;
        double graph_ratio; // of the edges, on the GPUs that sample together; 0 when auto
        enum sl_store_preference prefer;
        // No key: why "auto" became this preference, a static text; NULL: the job names it.
        const char *prefer_why;
    } store;

    // The text said "auto" or "cpu"; the resolved text lists devices, so it parses as false.
    bool devices_auto;
    bool devices_cpu;   // ... "cpu": GPUs are not used
    uint32_t n_devices; // resolved: see sl_config_use_gpus() for "auto"; of cores at first
    struct sl_device_config devices[SL_CONFIG_MAX_DEVICES];

    struct {
        uint32_t samplers; // resolved: at least 1; where both are auto, a first guess
        uint32_t trainers; // resolved: 0 only on a single device, whose standby trainer trains
        bool samplers_auto, trainers_auto; // the job leaves the number to the broker
        bool by_cores;  // external, no key: how many samplers follows from the cores of "auto"
        bool switching; // false unless given, with updates.exchange "nccl"; with a pool false
        // resolved: POOL for "auto" and "cpu" without GPUs. Each device then has all cores of the
        // pool, and there is a device for each worker that there may be.
        enum sl_core_policy cores;
        enum sl_balance balance; // external
    } allocation;

    bool nodes_auto;
    uint32_t nodes; // that run the job together; 0 when auto, until they are known

    uint32_t n_schedule;
    struct sl_schedule_config schedule[SL_CONFIG_MAX_SCHEDULE]; // ascending

    // For tests of the scheduling: seconds that a batch takes at least; 0 = off.
    struct {
        double sample, train, standby;
    } throttle;

    uint64_t arena_bytes;  // payload capacity; 0 = auto
    uint64_t memory_bytes; // of all processes together; 0 = what the machine has
    enum sl_activations activations;
    bool epochs_auto; // until sl_config_settle_epochs(); epochs is 0 then
    uint32_t epochs;
    uint32_t stall_seconds; // 0 = not checked
    uint64_t seed;
    enum sl_precision_kind precision;
    bool digest;

    struct {
        double every;    // a whole number, resolved; 0 = only at the end
        double fraction; // of a pass, that it was before; 0: it was none
        bool full;       // layer-wise over all neighbours
        uint32_t n_fanout;
        int64_t fanout[SL_CONFIG_MAX_LAYERS];
        struct sl_fanout_names fanout_names;
        uint64_t batch_size; // sampled evaluation; resolved: the sampler's unless given
        enum sl_metric metric;
        uint32_t k;              // link
        uint64_t negatives;      // link; 0: as many as positives
        bool val_edges_as_input; // link; of the test and of answers
        enum sl_test_kind test;
        bool overlap; // during the next epoch's training, where trainers are free
    } evaluate;

    struct {
        bool patience_auto; // until sl_config_settle_epochs(); patience is 0 then
        uint32_t patience;  // evaluations without a better metric; 0 = train all epochs
        double min_delta;
        double target; // of the metric; 0 = none
    } early_stopping;

    // Both intervals 0: no checkpoints. Otherwise one is also written at the end and at a stop.
    struct {
        uint64_t every_updates;
        double every_seconds;
        uint32_t keep; // newest ones
    } checkpoint;

    enum sl_resume_policy resume;
    char output[SL_CONFIG_PATH_BYTES];
};

// Whether the batches are for programs that attach: the job has no model, no parameters and no
// trainers of its own, and evaluates and keeps nothing. Its trainers are seats for those programs.
static inline bool sl_config_is_external(const struct sl_config *c)
{
    return c->model.kind == SL_MODEL_EXTERNAL;
}

// Columns of a vertex's row that are learned, behind those of the file; 0: none are.
static inline uint32_t sl_config_learned_dim(const struct sl_config *c)
{
    return c->features.kind == SL_INPUT_OF_FILE ? 0 : c->features.dim;
}

// Whether epochs follow one another until somebody ends the job.
static inline bool sl_config_is_endless(const struct sl_config *c)
{
    return sl_config_is_external(c) && c->epochs_auto;
}

// Whether the job learns which pairs of vertices are linked.
static inline bool sl_config_is_links(const struct sl_config *c)
{
    return c->task.kind == SL_JOB_LINKS;
}

// Whether the test's graph has edges that the data set's lacks, and a test is to come.
bool sl_config_widens(const struct sl_config *c, const struct sl_dataset *dataset);

// Hops that its blocks have: one more than are drawn for a subgraph of a batch's vertices.
static inline uint32_t sl_config_block_hops(const struct sl_config *c)
{
    return c->sampler.n_fanout + (c->sampler.subgraph != SL_SUBGRAPH_DIRECTIONAL);
}

// Whether each seed has a tree of its own.
static inline bool sl_config_is_disjoint(const struct sl_config *c)
{
    return c->sampler.disjoint || c->sampler.time;
}

// Whether samplers draw on cores, also those of a GPU, for what only cores can make.
static inline bool sl_config_draws_on_cores(const struct sl_config *c)
{
    return sl_config_is_disjoint(c) || c->sampler.subgraph != SL_SUBGRAPH_DIRECTIONAL ||
           sl_config_is_links(c);
}

// What the job needs of its data set: enum sl_dataset_need, added up. External trainers may do
// without labels and features.
unsigned sl_config_needs(const struct sl_config *c);
// The same of who draws mini-batches.
unsigned sl_config_needs_to_draw(const struct sl_config *c);
// The same of who applies its model.
unsigned sl_config_needs_to_predict(const struct sl_config *c);

// How many epochs there are, as people are told; 0: nobody knows.
static inline uint32_t sl_config_told_epochs(const struct sl_config *c)
{
    return sl_config_is_endless(c) ? 0 : c->epochs;
}

// Whether a model of this kind is of graphs of several types, and no other.
bool sl_model_is_typed(enum sl_model_kind kind);

// Whether the job can run on this data set, as far as its types decide that. SL_EINVAL,
// SL_EUNSUPPORTED with a message that begins with a key.
struct sl_dataset;
int sl_config_check_types(const struct sl_config *c, const struct sl_dataset *ds);

/*
 * Looks the names of both keys up in the data set's relations. SL_EINVAL with a message that begins
 * with the key: a name that no relation has, or several; a relation that two names mean, or none;
 * SL_ENOMEM.
 */
int sl_config_find_relations(struct sl_config *c, const struct sl_typed *typed);
void sl_config_forget_relations(struct sl_config *c); // safe on a zeroed struct
// The relation that a name means, which the key has. SL_EINVAL likewise.
int sl_config_relation(const char *key, const struct sl_typed *typed, const char *name,
                       uint32_t *out);

// Of a job that walks along metapaths: makes them the data set's relations, as far as this process
// is concerned, before anything is looked up there; sl_config_choose_items() does so. SL_EINVAL,
// SL_ENOMEM.
int sl_config_choose_paths(const struct sl_config *c, struct sl_dataset *dataset);

// Whether a sampled evaluation takes all neighbours.
bool sl_config_evaluates_all(const struct sl_config *c);

// Makes what the job walks through the data set's splits, as far as this process is concerned: the
// vertices that external trainers ask for, or the numbers of pairs (common/data/link_items.h) with
// SL_TASK_LINK for its task. SL_EINVAL: there are none. Errors also as sl_config_check_types().
int sl_config_choose_items(const struct sl_config *c, struct sl_dataset *dataset);
// Of a typed graph: data set's linked relation becomes the one that the job of links learns, as far
// as this process is concerned; sl_config_choose_items() does so. SL_EINVAL.
int sl_config_choose_relation(const struct sl_config *c, struct sl_dataset *dataset);
// How the negatives of a job of links' evaluations are drawn.
struct sl_link_negatives sl_config_negatives(const struct sl_config *c);
// Takes the features of a data set away that the job does not read, as far as this process is
// concerned.
void sl_config_choose_features(const struct sl_config *c, struct sl_dataset *dataset);
// Whether there may be learned rows with the devices and nodes that the job has, as far as these
// are known. SL_EINVAL.
int sl_config_check_learned(const struct sl_config *c);
// What decides how often training meets a vertex. Its fanout is the config's.
struct sl_visits_sampling sl_config_sampling(const struct sl_config *c);

// Training vertices (or pairs) of an epoch, of so many.
static inline uint64_t sl_config_epoch_items(const struct sl_config *c, uint64_t n_train)
{
    return sl_order_items(n_train, c->order.epochs_per_pass);
}

// Of so many batches of all nodes, those of the node that has most.
static inline uint64_t sl_config_of_node(const struct sl_config *c, uint64_t batches)
{
    return c->nodes > 1 ? (batches + c->nodes - 1) / c->nodes : batches;
}

// How many trainers of a node can work at the same time: ordered, its batches of an update; async,
// the allowed staleness and one.
static inline uint32_t sl_config_trainers_at_once(const struct sl_config *c)
{
    return c->updates.mode == SL_UPDATE_ASYNC
               ? c->updates.staleness + 1
               : (uint32_t)sl_config_of_node(c, c->updates.batches_per_update);
}

// Whether all workers share one pool of cores (allocation.cores); devices then only number them.
static inline bool sl_config_is_pool(const struct sl_config *c)
{
    return c->allocation.cores == SL_CORES_POOL;
}

// The cores of all devices, of GPUs those of their host.
void sl_config_cores(const struct sl_config *c, struct sl_cores *out);

// Whether blocks carry their vertices' in-degrees in the whole graph.
static inline bool sl_config_wants_degrees(const struct sl_config *c)
{
    return (c->model.kind == SL_MODEL_GCN || c->model.kind == SL_MODEL_GIN) &&
           c->model.degrees == SL_DEGREES_GRAPH;
}

// Whether the model adds up neighbours without a scale, so that an evaluation with another fanout
// sees larger or smaller sums than training.
bool sl_config_sums_differ(const struct sl_config *c);

// Whether these degrees leave out the graph's own self-loops.
static inline bool sl_config_drops_self_loops(const struct sl_config *c)
{
    return sl_config_wants_degrees(c) && c->model.kind == SL_MODEL_GCN && c->model.self_loops;
}

// Whether a trainer may run on the device: one of the job file's splits, or a standby trainer,
// which runs on devices of the kind of the last one. And on any device of that kind.
bool sl_config_may_train(const struct sl_config *c, uint32_t device);
bool sl_config_trains_on(const struct sl_config *c, enum sl_device_kind kind);

// How many devices of the job are on GPUs.
uint32_t sl_config_gpus(const struct sl_config *c);

// The devices that share this device's GPU, itself included: bit d for device d. 0: not a GPU.
uint64_t sl_config_on_gpu(const struct sl_config *c, uint32_t device);
// Whether a trainer may work on the GPU of this device while its sampler does.
bool sl_config_trains_beside(const struct sl_config *c, uint32_t device);

// What matrix products are computed in. "auto" is tf32 where GPUs alone train, else fp32; tf32 is
// fp32 where no GPU trains.
enum sl_precision_kind sl_config_precision(const struct sl_config *c);

// One `--set path=value`, in the order given on the command line.
struct sl_config_override {
    const char *text;
};

/*
 * Reads and validates a job file, applies the overrides (value is JSON, or a bare string) and
 * resolves "auto" devices and the split against this machine's cores. Call it before the process
 * pins itself: a core outside its affinity counts as one that it may not use.
 * SL_OK, or SL_EINVAL / SL_ENOENT / SL_EACCESS / SL_EFORMAT (not JSON) / SL_EIO with a message that
 * names file, JSON path, what was found, what is allowed and what to do; *out is then not usable.
 */
int sl_config_load(const char *path, const struct sl_config_override *overrides, size_t n_overrides,
                   struct sl_config *out);

// The same from text in memory. `origin` names the text in messages; a job without a name is called
// by the last part of it, without ".json".
int sl_config_parse(const char *text, size_t length, const char *origin, struct sl_config *out);

// For a worker, `who` in messages: reads the configuration that the broker resolved, then pins the
// calling thread, and all that it starts, to that device's cores (for a GPU without cores: those
// that the process may use). SL_EINVAL: there is no such device, or a core cannot be used; else as
// sl_config_parse().
int sl_config_take_device(const char *text, size_t length, uint32_t device, const char *who,
                          struct sl_config *out);

// The resolved configuration as JSON text (owned by the caller: free(); NULL without memory). It
// parses back to the same but for devices_auto. "auto" in "allocation" stays, since the number is
// a function of the devices and the broker must know that it may choose.
char *sl_config_to_json(const struct sl_config *config);

// Takes out of a job's text what says where it runs and not what it is (config/keys.c says which).
void sl_config_forget_machine(struct cJSON *job);

// Whether the job can run on so many nodes, as a launcher has started them. SL_EINVAL.
int sl_config_check_nodes(const struct sl_config *c, uint32_t n);
// So many run it. They take turns in the batches of an update, which a job for external trainers
// has for nothing else.
void sl_config_take_nodes(struct sl_config *c, uint32_t n);
// Whether it can run where this is one node's part of the data set. SL_EINVAL.
int sl_config_check_shard(const struct sl_config *c, const struct sl_dataset *ds);

// Of a resolved job the keys that have to be the same on all nodes, one after the other, with their
// values as JSON: all on which the result depends. each() may end it with an error. SL_ENOMEM.
int sl_config_each_shared(const char *config_json,
                          int (*each)(void *ctx, const char *path, const char *value), void *ctx);

// Keys in which a job differs from the job of a run.
struct sl_config_differences {
    uint32_t n;
    uint32_t n_named; // the first ones, in `text`
    char text[1024];  // "seed: found 8, the run has 7; model.hidden: found 32, ..."
};

/*
 * Compares a job, as sl_config_to_json() wrote it, with `had`, the job of the run that is to go on
 * (perhaps written by an older sluice), in the keys that the result depends on (config/keys.c).
 * SL_OK, also with differences; SL_ENOMEM.
 */
int sl_config_compare(const char *config_json, const struct cJSON *had,
                      struct sl_config_differences *out);

enum { SL_CONFIG_KEY_BYTES = 128 };

// The key that `word` means: by its path, its last name or another tool's name for it. "lr" and
// "learning-rate" are "optimizer.lr". False where no key or more than one fits.
bool sl_config_find_key(const char *word, char path[SL_CONFIG_KEY_BYTES]);

// The JSON Schema of the job file (owned: free(); NULL without memory); config/job.schema.json
// holds exactly this, so it is printed without another newline.
char *sl_config_schema(void);

// What a key of the job file may hold, its default and what it means, in lines for people; of an
// object those of all its keys; NULL: all keys. `word` as sl_config_find_key() has it. *out is
// owned. SL_EINVAL for what is no key, with the nearest one; SL_ENOMEM.
int sl_config_explain(const char *word, char **out);

// Whether the job needs sl_config_use_gpus(): its devices are "auto", or name a GPU. To find out
// what GPUs there are takes a process.
bool sl_config_asks_for_gpus(const struct sl_config *config);

/*
 * Brings a job that was read together with the GPUs of this machine (config/gpus.c):
 *
 *   "auto"      becomes one device for each GPU where there are any, used again in turn where the
 *               split asks for more; and stays the CPU cores where there are none
 *   cores       of a GPU's device that names none become those near the GPU, as far as this process
 *               may use them
 *   memory      of a GPU's device that names none becomes, with `budgets`, an equal part of what
 *               the GPU has free beside the budgets that are named
 *
 * `origin` names the job in messages. SL_EINVAL: a device names a GPU that does not exist (what
 * there is, or why there is none) or more memory than it has, or updates.exchange wants other
 * devices. A list of CPU devices stays as it is.
 */
int sl_config_use_gpus(struct sl_config *config, const struct sl_gpu_report *report, bool budgets,
                       const char *origin);

// "GPU 0 (NVIDIA H100, 80.0 GiB), GPU 1 (...)", or "none: " and why. Returns out.
enum { SL_CONFIG_GPUS_TEXT = 640 };
char *sl_config_gpus_text(const struct sl_gpu_report *report, char out[SL_CONFIG_GPUS_TEXT]);

// Bytes that so many processes on a GPU may use together: what is free, less what CUDA itself needs
// for each of them.
uint64_t sl_config_gpu_room(const struct sl_gpu *gpu, uint32_t processes);

// "auto" of epochs: enough for UPDATES updates, but LEAST to MOST (config/epochs.c).
enum { SL_EPOCHS_UPDATES = 500, SL_EPOCHS_LEAST = 10, SL_EPOCHS_MOST = 200 };

/*
 * Resolves "auto" of epochs and early_stopping.patience (config/epochs.c). updates: in an epoch.
 * finds_best: evaluations can be compared. note: "" where nothing was auto, else the numbers and
 * why. Returns note.
 */
enum { SL_CONFIG_EPOCHS_TEXT = 320 };
char *sl_config_settle_epochs(struct sl_config *config, uint64_t updates, bool finds_best,
                              char note[SL_CONFIG_EPOCHS_TEXT]);

/*
 * Whether so many trainers, on the last devices, can sum gradients as updates.exchange says: "nccl"
 * needs a GPU for each. SL_EINVAL with a message that begins "found trainers=3 with ..." and says
 * what is in the way and how many trainers there can be.
 */
int sl_config_check_trainers(const struct sl_config *config, uint32_t trainers);

// Words used in files and messages.
const char *sl_exchange_kind_name(enum sl_exchange_kind kind);
const char *sl_model_kind_name(enum sl_model_kind kind);
const char *sl_device_kind_name(enum sl_device_kind kind);

#endif
