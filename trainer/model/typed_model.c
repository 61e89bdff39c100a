#include "trainer/model/typed_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/philox.h"
#include "trainer/feed/typed_block.h"

// Adding a kind: config/model_kinds.h.
#define KIND(upper, lower) [SL_MODEL_##upper] = &sl_typed_##lower,
static const struct sl_typed_kind *const KINDS[] = {SL_MODEL_TYPED_KINDS(KIND)};

enum { INPUT_WEIGHT, INPUT_BIAS, INPUT_TENSORS }; // of lin_dict

static const struct sl_dropout NO_DROPOUT;

bool sl_typed_model_is(enum sl_model_kind kind)
{
    return (size_t)kind < SL_COUNT_OF(KINDS) && KINDS[kind];
}

static const struct sl_typed_kind *kind_of(const struct sl_typed_model *m)
{
    return m->layer[0].kind;
}

bool sl_typed_model_ends_in(const struct sl_typed_model *m, uint32_t type)
{
    const struct sl_relation *r = m->links ? &m->typed->relation[m->typed->linked] : NULL;
    return r ? type == r->source || type == r->target : type == 0;
}

// ---- layout -------------------------------------------------------------------------------------

static int list_incoming(const struct sl_typed *typed, struct sl_incoming *in)
{
    in->first = calloc(typed->n_types + 2, sizeof *in->first);
    in->relation = calloc(typed->n_relations, sizeof *in->relation);
    if (!in->first || !in->relation)
        return sl_fail(SL_ENOMEM, "no memory for %u relations", typed->n_relations);
    uint32_t *next = in->first + 1; // each a place late: it moves as the list is filled
    for (uint32_t r = 0; r < typed->n_relations; r++)
        next[typed->relation[r].target + 1]++;
    for (uint32_t t = 0; t < typed->n_types; t++)
        next[t + 1] += next[t];
    for (uint32_t r = 0; r < typed->n_relations; r++)
        in->relation[next[typed->relation[r].target]++] = r;
    return SL_OK;
}

// What a layer above needs of a type must be there: hops[t] is how many hops from the seeds its
// vertices are at least, or more than there are layers.
static int check_type(const struct sl_typed_model *m, uint32_t t, uint32_t hops)
{
    if (hops < m->n_layers && m->incoming.first[t + 1] == m->incoming.first[t] &&
        !kind_of(m)->updates_all)
        return sl_fail(SL_EUNSUPPORTED,
                       "model.kind \"%s\": no relation leads to vertices of type '%s', whose rows "
                       "layer %u of %u must make: add the reverses of its relations to the data "
                       "set, make model.layers smaller, or use \"rgcn\"",
                       kind_of(m)->name, m->typed->type[t].name, m->n_layers - hops, m->n_layers);
    return SL_OK;
}

static int check_types(const struct sl_typed_model *m)
{
    const struct sl_typed *typed = m->typed;
    uint32_t *hops = m->hops;
    for (uint32_t t = 0; t < typed->n_types; t++)
        hops[t] = sl_typed_model_ends_in(m, t) ? 0 : UINT32_MAX;
    for (uint32_t h = 0; h < m->n_layers; h++)
        for (uint32_t r = 0; r < typed->n_relations; r++)
            if (hops[typed->relation[r].target] == h)
                hops[typed->relation[r].source] = SL_MIN(hops[typed->relation[r].source], h + 1);
    for (uint32_t t = 0; t < typed->n_types; t++)
        SL_TRY(check_type(m, t, hops[t]));
    return SL_OK;
}

// Counts the tensors that relations have.
static uint32_t place_of_relations(const struct sl_typed_layer *layer, uint32_t *place)
{
    const struct sl_typed_kind *kind = layer->kind;
    uint32_t n = 0;
    for (uint32_t r = 0; r < layer->typed->n_relations; r++)
        for (uint32_t k = 0; k < kind->per_relation; k++, place++) {
            *place = n;
            n += !kind->has || kind->has(layer, r, k);
        }
    return n;
}

static int layout(struct sl_typed_model *m, const struct sl_config *config,
                  const struct sl_layer_options *options)
{
    const struct sl_typed *typed = m->typed;
    const struct sl_typed_kind *kind = KINDS[config->model.kind];
    const uint64_t n = (uint64_t)config->model.layers * typed->n_types;
    m->n_layers = config->model.layers;
    m->hidden = config->model.hidden;
    m->hops = calloc(typed->n_types, sizeof *m->hops);
    m->place = calloc((size_t)typed->n_relations * kind->per_relation + 1, sizeof *m->place);
    m->d_feat = calloc(typed->n_types, sizeof *m->d_feat);
    m->d_hidden = calloc(typed->n_types, sizeof *m->d_hidden);
    m->tail = calloc(n, sizeof *m->tail);
    m->tail_tape = calloc(n, sizeof *m->tail_tape);
    m->input = calloc(typed->n_types, sizeof *m->input);
    m->features = calloc(typed->n_types, sizeof *m->features);
    if (!m->hops || !m->place || !m->d_feat || !m->d_hidden || !m->tail || !m->tail_tape ||
        !m->input || !m->features)
        return sl_fail(SL_ENOMEM, "no memory for a model of %u types", typed->n_types);
    SL_TRY(list_incoming(typed, &m->incoming));
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint32_t dim = typed->type[t].feat_dim;
        m->d_feat[t] = SL_MAX(dim ? dim : m->learned->dim, 1u);
        m->d_hidden[t] = m->hidden;
    }
    for (uint32_t l = 0; l < m->n_layers; l++) {
        struct sl_typed_layer *layer = &m->layer[l];
        *layer = (struct sl_typed_layer){.kind = kind,
                                         .index = l,
                                         .typed = typed,
                                         .incoming = &m->incoming,
                                         .d_in = l || kind->one_width ? m->d_hidden : m->d_feat,
                                         .d_out = m->hidden,
                                         .options = options,
                                         .place = m->place};
        layer->n_placed = place_of_relations(layer, m->place);
        if (kind->check)
            SL_TRY(kind->check(layer));
        for (uint32_t t = 0; t < typed->n_types; t++)
            m->tail[(uint64_t)l * typed->n_types + t] = (struct sl_layer_tail){
                .dim = m->hidden,
                .hidden = l + 1 < m->n_layers,
                .activation = kind->own_activation ? SL_ACT_NONE : options->activation,
                .norm = options->norm};
    }
    return check_types(m);
}

int sl_typed_model_create(const struct sl_config *config, const struct sl_typed *typed,
                          const struct sl_layer_options *options, const struct sl_layer_env *env,
                          const struct sl_learned_rows *learned, struct sl_typed_model **out)
{
    struct sl_typed_model *m = calloc(1, sizeof *m);
    *out = m;
    if (!m)
        return sl_fail(SL_ENOMEM, "no memory for a model");
    m->typed = typed;
    m->env = env;
    m->options = options;
    m->learned = learned;
    m->seed = config->seed;
    m->links = sl_config_is_links(config);
    m->dropout = (float)config->model.dropout;
    m->input_dropout = (float)config->model.input_dropout;
    return layout(m, config, options);
}

void sl_typed_model_destroy(struct sl_typed_model *m)
{
    if (!m)
        return;
    free(m->incoming.first);
    free(m->incoming.relation);
    free(m->hops);
    free(m->place);
    free(m->d_feat);
    free(m->d_hidden);
    free(m->tail);
    free(m->tail_tape);
    free(m->input);
    free(m->features);
    free(m->table);
    free(m);
}

// ---- tensors ------------------------------------------------------------------------------------

static struct sl_layer_tail *tail_of(const struct sl_typed_model *m, uint32_t l, uint32_t t)
{
    return &m->tail[(uint64_t)l * m->typed->n_types + t];
}

// Of a type that layer l gives rows to.
static uint32_t describe_norm(const struct sl_typed_model *m, uint32_t l, uint32_t t,
                              struct sl_tensor tensors[SL_NORM_TENSORS])
{
    const struct sl_layer_tail *tail = tail_of(m, l, t);
    char prefix[SL_TYPE_NAME_BYTES + 24];
    if (!tail->hidden ||
        (m->incoming.first[t + 1] == m->incoming.first[t] && !kind_of(m)->updates_all))
        return 0;
    snprintf(prefix, sizeof prefix, "norms.%u.%s", l, m->typed->type[t].name);
    return sl_norm_describe(tail->norm, tail->dim, prefix, tensors);
}

static uint32_t describe_input(const struct sl_typed_model *m, uint32_t t,
                               struct sl_tensor tensors[INPUT_TENSORS])
{
    const uint32_t d_in = m->d_feat[t];
    const float bound = sl_layer_linear_bound(d_in);
    tensors[INPUT_WEIGHT] =
        (struct sl_tensor){.rank = 2, .shape = {m->hidden, d_in}, .init_bound = bound};
    tensors[INPUT_BIAS] = (struct sl_tensor){.rank = 1, .shape = {m->hidden}, .init_bound = bound};
    const char *type = m->typed->type[t].name;
    snprintf(tensors[INPUT_WEIGHT].name, SL_TENSOR_NAME_BYTES, "lin_dict.%s.weight", type);
    snprintf(tensors[INPUT_BIAS].name, SL_TENSOR_NAME_BYTES, "lin_dict.%s.bias", type);
    return INPUT_TENSORS;
}

static uint32_t n_tensors(const struct sl_typed_layer *layer)
{
    return layer->kind->count ? layer->kind->count(layer) : layer->n_placed;
}

uint32_t sl_typed_model_count(const struct sl_typed_model *m)
{
    struct sl_tensor norm[SL_NORM_TENSORS], input[INPUT_TENSORS];
    uint32_t n = 0;
    for (uint32_t l = 0; l < m->n_layers; l++)
        n += n_tensors(&m->layer[l]);
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        for (uint32_t l = 0; l < m->n_layers; l++)
            n += describe_norm(m, l, t, norm);
        n += kind_of(m)->one_width ? describe_input(m, t, input) : 0;
    }
    return n;
}

// Gives tensors their place in the vector; returns what is behind them.
static struct sl_tensor *place(struct sl_tensor *tensors, uint32_t n, uint32_t layer,
                               uint64_t *n_params)
{
    for (uint32_t i = 0; i < n; i++) {
        tensors[i].layer = layer;
        tensors[i].offset = tensors[i].twin ? tensors[i - tensors[i].twin].offset : *n_params;
        *n_params += sl_tensor_count(&tensors[i]);
    }
    return tensors + n;
}

void sl_typed_model_describe(struct sl_typed_model *m, struct sl_tensor *tensors,
                             uint64_t *n_params)
{
    for (uint32_t l = 0; l < m->n_layers; l++) {
        struct sl_typed_layer *layer = &m->layer[l];
        layer->tensor = tensors;
        layer->kind->describe(layer, tensors);
        tensors = place(tensors, n_tensors(layer), l, n_params);
    }
    for (uint32_t l = 0; l < m->n_layers; l++)
        for (uint32_t t = 0; t < m->typed->n_types; t++) {
            const uint32_t n = describe_norm(m, l, t, tensors);
            const struct sl_tensor *norm = tensors;
            tensors = place(tensors, n, l, n_params);
            for (uint32_t i = 0; i < n; i++)
                tail_of(m, l, t)->norm_offset[i] = norm[i].offset;
        }
    for (uint32_t t = 0; t < m->typed->n_types && kind_of(m)->one_width; t++) {
        const uint32_t n = describe_input(m, t, tensors);
        m->input[t] = tensors;
        tensors = place(tensors, n, 0, n_params);
    }
}

static int check_abort(const struct sl_heartbeat *pulse)
{
    if (pulse && sl_heartbeat_stopping(pulse))
        return sl_fail(SL_EABORTED, "the job stops");
    return SL_OK;
}

// ---- forward ------------------------------------------------------------------------------------

static struct sl_dropout dropout_of(const struct sl_typed_model *m, struct sl_block_view block,
                                    uint32_t layer, float rate, uint32_t type)
{
    return (struct sl_dropout){.rate = rate,
                               .seed = sl_rng_relation_seed(m->seed, type),
                               .epoch = block.header->epoch,
                               .batch = (uint32_t)block.header->batch,
                               .layer = layer};
}

static void *zeroed_note(const struct sl_layer_env *env, size_t bytes)
{
    void *p = sl_layer_note(env, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

// Where features of the block's edges are: behind other rows at x, from byte `first` on.
static int find_edges(struct sl_typed_model *m, struct sl_block_view block, const float *x,
                      uint64_t first)
{
    const uint32_t n_runs = sl_block_typed(block.header)->n_runs;
    uint64_t *at = sl_layer_note(m->env, (n_runs + 1) * sizeof *at);
    if (!at)
        return SL_ENOMEM;
    sl_typed_edge_rows(block.header, m->typed, first, at);
    m->rows = x;
    m->edges_at = at;
    return SL_OK;
}

// The runs of hop h.
static int list_runs(const struct sl_typed_model *m, struct sl_block_view block, uint32_t h,
                     struct sl_typed_tape *tape)
{
    const struct sl_layer_env *env = m->env;
    const struct sl_block_run *runs = sl_block_runs(block.header);
    const uint32_t n = sl_block_typed(block.header)->n_runs;
    uint32_t first = 0, end;
    while (first < n && runs[first].hop < h)
        first++;
    for (end = first; end < n && runs[end].hop == h;)
        end++;
    tape->n_runs = end - first;
    tape->run = zeroed_note(env, (tape->n_runs + 1) * sizeof *tape->run);
    if (!tape->run)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const uint64_t at = m->edges_at[first + i];
        tape->run[i] = (struct sl_typed_run){.relation = runs[first + i].relation,
                                             .csr = sl_run_csr(block, m->typed, &runs[first + i]),
                                             .weights = sl_run_weights(block, &runs[first + i])};
        if (at != SL_NO_EDGE_ROWS)
            tape->run[i].edges = m->rows + at / sizeof *m->rows;
    }
    return SL_OK;
}

// Of a layer that reads hop h.
static int open_tape(const struct sl_typed_model *m, struct sl_block_view block, uint32_t l,
                     uint32_t h, float **x, bool training, struct sl_typed_tape *tape)
{
    const struct sl_layer_env *env = m->env;
    const struct sl_block_type *types = sl_block_types(block.header);
    const uint32_t n = m->typed->n_types;
    *tape = (struct sl_typed_tape){
        .n_dst = sl_layer_note(env, n * sizeof *tape->n_dst),
        .n_src = sl_layer_note(env, n * sizeof *tape->n_src),
        .x = x,
        .table = l == 0 ? m->far : NULL,
        .y = zeroed_note(env, n * sizeof *tape->y),
        .after = zeroed_note(env, n * sizeof *tape->after),
        .before = zeroed_note(env, n * sizeof *tape->before),
        .dropout = dropout_of(m, block, SL_LAYER_OWN_DROPOUT + l,
                              training ? m->options->attention_dropout : 0, 0),
        .training = training,
    };
    if (!tape->n_dst || !tape->n_src || !tape->y || !tape->after || !tape->before)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < n; t++) {
        tape->n_dst[t] = types[t].n[h];
        tape->n_src[t] = types[t].n[h + 1];
    }
    return list_runs(m, block, h, tape);
}

static struct sl_layer_tail_tape *tail_tape_of(const struct sl_typed_model *m, uint32_t l,
                                               uint32_t t)
{
    return &m->tail_tape[(uint64_t)l * m->typed->n_types + t];
}

// One layer and what follows it: *x, rows by type, becomes its output.
static int forward_layer(struct sl_typed_model *m, const float *params, struct sl_block_view block,
                         uint32_t l, uint32_t h, bool training, float ***x)
{
    const struct sl_layer_env *env = m->env;
    const struct sl_typed_layer *layer = &m->layer[l];
    struct sl_typed_tape *tape = &m->tape[l];
    float **out = zeroed_note(env, m->typed->n_types * sizeof *out);
    if (!out)
        return SL_ENOMEM;
    SL_TRY(open_tape(m, block, l, h, *x, training, tape));
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const float *bias;
        const struct sl_dropout dropout = dropout_of(m, block, l + 1, m->dropout, t);
        if (tape->n_dst[t] == 0)
            continue;
        SL_TRY(sl_typed_combine(env, layer, params, t, sl_typed_bias(layer), &bias));
        tape->after[t] = sl_layer_tail_offer(tail_of(m, l, t), bias, training, &dropout);
    }
    SL_TRY(layer->kind->forward(env, layer, params, tape));
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const struct sl_dropout dropout = dropout_of(m, block, l + 1, m->dropout, t);
        if (tape->n_dst[t] == 0)
            continue;
        SL_TRY(sl_layer_tail_forward(env, tail_of(m, l, t), params, &tape->after[t], tape->y[t],
                                     tape->n_dst[t], training, &dropout, tail_tape_of(m, l, t)));
        out[t] = tail_tape_of(m, l, t)->y;
    }
    *x = out;
    return SL_OK;
}

// act(x W' + b) of each type that has rows: *x, rows of features by type, becomes this.
static int forward_input(const struct sl_typed_model *m, const float *params, const uint32_t *rows,
                         float ***x)
{
    const struct sl_layer_env *env = m->env;
    float **out = zeroed_note(env, m->typed->n_types * sizeof *out);
    if (!out)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const struct sl_tensor *lin = m->input[t];
        if (rows[t] == 0)
            continue;
        const struct sl_layer as = {.d_in = m->d_feat[t], .d_out = m->hidden};
        struct sl_layer_epilogue after = {.offered = true,
                                          .bias = params + lin[INPUT_BIAS].offset,
                                          .act = m->options->activation};
        out[t] = sl_layer_floats(env, (uint64_t)rows[t] * m->hidden);
        if (!out[t])
            return SL_ENOMEM;
        SL_TRY(sl_layer_last_product(env, &as, (*x)[t], rows[t], params + lin[INPUT_WEIGHT].offset,
                                     0, out[t], &after));
    }
    *x = out;
    return SL_OK;
}

// *out (rows): ones, the rows of a type without features.
static int make_ones(const struct sl_layer_env *env, uint32_t rows, float **out)
{
    float *zero = sl_layer_floats(env, 1);
    *out = sl_layer_floats(env, rows);
    if (!zero || !*out)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    return env->kernels->fill_sum(rows, 1, zero, *out);
}

static bool is_learned(const struct sl_typed_model *m, uint32_t t)
{
    return m->learned->dim > 0 && m->typed->type[t].feat_dim == 0;
}

// *out (rows, dim): the learned rows of a type's vertices.
static int take_learned(const struct sl_typed_model *m, struct sl_block_view block, uint32_t t,
                        uint32_t rows, float **out)
{
    const struct sl_vertex_type *type = &m->typed->type[t];
    const uint32_t *nodes = sl_view_nodes(block) + sl_block_types(block.header)[t].first;
    const uint32_t dim = m->learned->dim;
    const float *table = m->learned->rows + sl_typed_bare_before(m->typed, t) * dim;
    uint32_t *ids = sl_layer_note(m->env, rows * sizeof *ids);
    *out = sl_layer_floats(m->env, (uint64_t)rows * dim);
    if (!ids || !*out)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < rows; i++) // of a vertex before the type's it is a very large number
        ids[i] = nodes[i] - (uint32_t)type->first;
    return m->env->kernels->gather_rows(table, SL_DTYPE_F32, type->n, dim, ids, rows, *out);
}

static struct sl_dropout input_mask(const struct sl_typed_model *m, uint32_t t)
{
    struct sl_dropout mask = m->input_mask;
    mask.seed = sl_rng_relation_seed(m->seed, t);
    return mask;
}

static enum sl_typed_layout layout_of(struct sl_typed_input in)
{
    return in.near ? SL_TYPED_NEAR : SL_TYPED_F32;
}

// Rows of features by type, masked in training.
static int take_features(struct sl_typed_model *m, struct sl_block_view block,
                         struct sl_typed_input in, bool training, const uint32_t *rows)
{
    m->input_mask = dropout_of(m, block, 0, training ? m->input_dropout : 0, 0);
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const struct sl_dropout mask = input_mask(m, t);
        m->features[t] = NULL;
        if (rows[t] == 0)
            continue;
        if (m->typed->type[t].feat_dim > 0)
            m->features[t] =
                in.x + sl_typed_rows_at(block.header, m->typed, t, layout_of(in)) / sizeof *in.x;
        else if (is_learned(m, t))
            SL_TRY(take_learned(m, block, t, rows[t], &m->features[t]));
        else
            SL_TRY(make_ones(m->env, rows[t], &m->features[t]));
        if (mask.rate > 0 && (m->typed->type[t].feat_dim > 0 || is_learned(m, t)))
            SL_TRY(m->env->kernels->dropout(m->features[t], rows[t], m->d_feat[t], &mask));
    }
    return SL_OK;
}

uint32_t sl_typed_model_learned_ids(const struct sl_typed_model *m, struct sl_block_view block,
                                    uint32_t *ids)
{
    const uint32_t *nodes = sl_view_nodes(block);
    uint32_t n = 0;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        if (!is_learned(m, t))
            continue;
        const uint32_t first = sl_block_types(block.header)[t].first;
        const uint32_t rows = sl_typed_block_rows(block.header, t);
        const uint64_t shift = sl_typed_bare_before(m->typed, t) - m->typed->type[t].first;
        for (uint32_t i = 0; i < rows; i++)
            ids[n++] = nodes[first + i] + (uint32_t)shift;
    }
    return n;
}

// *at: rows by type that the first layer reads.
static int forward_first(struct sl_typed_model *m, const float *params, struct sl_block_view block,
                         struct sl_typed_input in, bool training, float ***at)
{
    uint32_t *rows = sl_layer_note(m->env, m->typed->n_types * sizeof *rows);
    if (!rows)
        return SL_ENOMEM;
    m->far = in.near ? m->table : NULL;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const bool far = in.near && m->table[t].rows;
        rows[t] = sl_typed_layout_rows(block.header, t, far ? SL_TYPED_NEAR : SL_TYPED_F32);
        if (far)
            m->table[t].nodes = sl_view_nodes(block) + sl_block_types(block.header)[t].first;
    }
    SL_TRY(find_edges(m, block, in.x,
                      sl_typed_rows_at(block.header, m->typed, m->typed->n_types, layout_of(in))));
    SL_TRY(take_features(m, block, in, training, rows));
    *at = m->features;
    return kind_of(m)->one_width ? forward_input(m, params, rows, at) : SL_OK;
}

// *h: the last layer's rows of seeds, one type after the other. Those of one type lie where they
// are.
static int join_seeds(const struct sl_typed_model *m, struct sl_block_view block, float **h)
{
    const struct sl_block_type *types = sl_block_types(block.header);
    const size_t row = m->hidden * sizeof(float);
    uint32_t done = 0, of_one = 0;
    for (uint32_t t = 0; t < m->typed->n_types; t++)
        of_one = SL_MAX(of_one, types[t].n[0]);
    *h = of_one < block.header->n_seeds
             ? sl_layer_floats(m->env, (uint64_t)block.header->n_seeds * m->hidden)
             : NULL;
    if (of_one < block.header->n_seeds && !*h)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        if (types[t].n[0] == 0)
            continue;
        if (of_one == block.header->n_seeds)
            *h = m->last[t];
        else
            SL_TRY(m->env->device->copy(*h + (uint64_t)done * m->hidden, m->last[t],
                                        types[t].n[0] * row));
        done += types[t].n[0];
    }
    return SL_OK;
}

bool sl_typed_model_take_table(struct sl_typed_model *m)
{
    const struct sl_typed *typed = m->typed;
    bool mapped = true;
    for (uint32_t t = 0; t < typed->n_types; t++)
        mapped &= typed->type[t].feat_dim == 0 || typed->type[t].feat;
    if (!mapped || !kind_of(m)->reads_table || !m->env->device->is_host || m->input_dropout > 0)
        return false;
    m->table = calloc(typed->n_types, sizeof *m->table);
    for (uint32_t t = 0; m->table && t < typed->n_types; t++) {
        const struct sl_vertex_type *type = &typed->type[t];
        m->table[t] = (struct sl_layer_table){.rows = type->feat_dim ? type->feat : NULL,
                                              .dtype = type->feat_dtype,
                                              .n_rows = (uint32_t)type->n,
                                              .first = (uint32_t)type->first};
    }
    return m->table;
}

int sl_typed_model_forward(struct sl_typed_model *m, const float *params,
                           struct sl_block_view block, struct sl_typed_input in, bool training,
                           const struct sl_heartbeat *pulse, float **h)
{
    const uint32_t n_hops = block.header->n_hops;
    float **at;
    SL_TRY(forward_first(m, params, block, in, training, &at));
    for (uint32_t l = 0; l < n_hops; l++) {
        SL_TRY(check_abort(pulse));
        SL_TRY(forward_layer(m, params, block, l, n_hops - 1 - l, training, &at));
    }
    m->last = at;
    return join_seeds(m, block, h);
}

int sl_typed_model_layer(struct sl_typed_model *m, const float *params, struct sl_block_view block,
                         uint32_t layer, float *x)
{
    float **at;
    if (layer == 0) {
        SL_TRY(forward_first(m, params, block, (struct sl_typed_input){.x = x}, false, &at));
    } else {
        at = zeroed_note(m->env, m->typed->n_types * sizeof *at);
        if (!at)
            return SL_ENOMEM;
        SL_TRY(find_edges(m, block, x, sl_typed_activations_end(block.header, m->hidden)));
        for (uint32_t t = 0; t < m->typed->n_types; t++)
            if (sl_typed_block_rows(block.header, t) > 0)
                at[t] = x + (uint64_t)sl_block_types(block.header)[t].first * m->hidden;
    }
    SL_TRY(forward_layer(m, params, block, layer, 0, false, &at));
    m->last = at;
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

// *out: room for the gradient of a layer's input, by type.
static int input_gradients(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                           const struct sl_typed_tape *tape, float ***out)
{
    const uint32_t n = layer->typed->n_types;
    float **dx = *out = zeroed_note(env, n * sizeof *dx);
    if (!dx)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < n; t++) {
        if (tape->n_src[t] == 0)
            continue;
        dx[t] = sl_layer_floats(env, (uint64_t)tape->n_src[t] * layer->d_in[t]);
        if (!dx[t])
            return SL_ENOMEM;
    }
    return SL_OK;
}

// Running statistics of a type that the batch has no rows of stay as they are.
static int keep_norm(const struct sl_layer_env *env, const struct sl_typed_model *m, uint32_t l,
                     uint32_t t, const float *params, float *gradient)
{
    struct sl_tensor tensors[SL_NORM_TENSORS];
    if (describe_norm(m, l, t, tensors) == 0)
        return SL_OK;
    const struct sl_layer_tail *tail = tail_of(m, l, t);
    const struct sl_norm norm = {tail->norm, tail->dim, tail->norm_offset};
    return sl_norm_keep(env, &norm, params, gradient);
}

static int backward_layer(struct sl_typed_model *m, const float *params, uint32_t l, float **dy,
                          float *gradient, float **dx)
{
    const struct sl_layer_env *env = m->env;
    const struct sl_typed_layer *layer = &m->layer[l];
    struct sl_typed_tape *tape = &m->tape[l];
    const uint32_t n = m->typed->n_types, bias = sl_typed_bias(layer);
    float **dbias = zeroed_note(env, n * sizeof *dbias);
    if (!dbias)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < n; t++) {
        if (tape->n_dst[t] == 0) {
            SL_TRY(keep_norm(env, m, l, t, params, gradient));
            continue;
        }
        SL_TRY(sl_typed_gradient_room(env, layer, gradient, t, bias, &dbias[t]));
        SL_TRY(sl_layer_tail_backward(env, tail_of(m, l, t), params, tail_tape_of(m, l, t), dy[t],
                                      gradient, dbias[t], &tape->before[t]));
    }
    SL_TRY(layer->kind->backward(env, layer, params, tape, dy, gradient, dx));
    for (uint32_t t = 0; t < n; t++)
        if (dbias[t])
            SL_TRY(sl_typed_spread(env, layer, dbias[t], t, bias, gradient));
    return SL_OK;
}

// *out: where the gradient of each type's learned rows goes, NULL of other types.
static int learned_gradients(const struct sl_typed_model *m, float ***out)
{
    float **dx = *out = zeroed_note(m->env, m->typed->n_types * sizeof *dx);
    float *at = m->learned->gradient;
    if (!dx)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const uint32_t rows = m->tape[0].n_src[t];
        if (!is_learned(m, t) || rows == 0)
            continue;
        dx[t] = at;
        at += (uint64_t)rows * m->learned->dim;
    }
    return SL_OK;
}

// dx: that of learned rows, as the input was masked.
static int mask_learned(const struct sl_typed_model *m, float **dx)
{
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const struct sl_dropout mask = input_mask(m, t);
        if (dx[t] && mask.rate > 0)
            SL_TRY(m->env->kernels->dropout(dx[t], m->tape[0].n_src[t], m->learned->dim, &mask));
    }
    return SL_OK;
}

static int backward_input(const struct sl_typed_model *m, const float *params, float **dh,
                          float **h, float *gradient, float **dx)
{
    const struct sl_layer_env *env = m->env;
    for (uint32_t t = 0; t < m->typed->n_types; t++) {
        const struct sl_tensor *lin = m->input[t];
        const uint32_t rows = m->tape[0].n_src[t];
        if (rows == 0)
            continue;
        const struct sl_layer as = {.d_in = m->d_feat[t], .d_out = m->hidden};
        const struct sl_bias_act_gradient before = {.y = h[t],
                                                    .act = m->options->activation,
                                                    .dropout = NO_DROPOUT,
                                                    .dbias = gradient + lin[INPUT_BIAS].offset};
        const struct sl_layer_gradient of[2] = {
            {m->features[t], gradient + lin[INPUT_WEIGHT].offset, m->d_feat[t], false}};
        SL_TRY(sl_layer_product_gradients(env, &as, &before, dh[t], of, rows));
        if (dx && dx[t])
            SL_TRY(sl_layer_product_backward(env, &as, dh[t], rows,
                                             params + lin[INPUT_WEIGHT].offset, 0, dx[t]));
    }
    return SL_OK;
}

int sl_typed_model_backward(struct sl_typed_model *m, const float *params, float *dh,
                            const struct sl_heartbeat *pulse, float *gradient)
{
    const struct sl_layer_env *env = m->env;
    const bool enters = kind_of(m)->one_width;
    float **dy = zeroed_note(env, m->typed->n_types * sizeof *dy), **dx = NULL, **learned = NULL;
    if (!dy)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < m->typed->n_types; t++) { // the seeds', one type after the other
        const uint32_t n = m->tape[m->n_layers - 1].n_dst[t];
        dy[t] = n > 0 ? dh : NULL;
        dh += (uint64_t)n * m->hidden;
    }
    if (m->learned->dim > 0)
        SL_TRY(learned_gradients(m, &learned));
    for (uint32_t l = m->n_layers; l-- > 0; dy = dx) {
        SL_TRY(check_abort(pulse));
        dx = learned;
        if (l > 0 || enters)
            SL_TRY(input_gradients(env, &m->layer[l], &m->tape[l], &dx));
        SL_TRY(backward_layer(m, params, l, dy, gradient, dx));
        if (l + 1 == m->n_layers)
            SL_FAILPOINT(TRAINER_GRADIENT);
    }
    if (enters)
        SL_TRY(backward_input(m, params, dy, m->tape[0].x, gradient, learned));
    return learned ? mask_learned(m, learned) : SL_OK;
}
