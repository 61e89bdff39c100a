#include "partition/stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

// A part that holds all that it should costs as much as so many mean degrees of neighbours bring.
// On ogbn_arxiv, 4 parts, price 16 cuts .19 of the edges, 4 .24, 1 .28; linear deterministic
// greedy, which weighs neighbours by the room that is left, .27.
enum { PASSES = 5, PRICE = 16 };

// Vertices of one kind, training or others, in each part.
struct load {
    uint64_t *n; // (n_parts)
    uint64_t capacity;
    uint32_t *least; // (2 * leaves) of a binary tree: the part below that has least, 1 is the root
};

struct stream {
    const struct sl_parts_task *task;
    uint16_t *part;
    struct load load[2]; // by whether it is for training
    uint32_t leaves;     // a power of two
    uint64_t *votes;     // (n_parts) neighbours of the present vertex; zero between vertices
    uint32_t *voted;     // (n_parts) those that have any
};

// Of two parts that which has less, of equals the first.
static uint32_t less(const struct stream *s, const struct load *load, uint32_t a, uint32_t b)
{
    if (b >= s->task->n_parts)
        return a;
    return load->n[b] < load->n[a] ? b : a;
}

static void add(const struct stream *s, struct load *load, uint32_t p, int by)
{
    load->n[p] = (uint64_t)((int64_t)load->n[p] + by);
    for (uint32_t at = (s->leaves + p) / 2; at > 0; at /= 2)
        load->least[at] = less(s, load, load->least[2 * at], load->least[2 * at + 1]);
}

static int init_load(const struct stream *s, uint64_t n, struct load *load)
{
    load->capacity = sl_parts_limit(n, s->task->n_parts, s->task->slack);
    load->n = calloc(s->task->n_parts, sizeof *load->n);
    load->least = calloc(2 * (size_t)s->leaves, sizeof *load->least);
    if (!load->n || !load->least)
        return SL_ENOMEM;
    for (uint32_t p = 0; p < s->leaves; p++)
        load->least[s->leaves + p] = p;
    for (uint32_t at = s->leaves - 1; at > 0; at--)
        load->least[at] = less(s, load, load->least[2 * at], load->least[2 * at + 1]);
    return SL_OK;
}

static uint32_t count_votes(struct stream *s, uint64_t v)
{
    const struct sl_dataset *ds = s->task->ds;
    uint64_t list;
    uint32_t n = 0;
    for (uint32_t relation = 0; sl_dataset_next_list(ds, v, &relation, &list);) {
        for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++) {
            const uint16_t p = s->part[sl_dataset_source(ds, e)];
            if (p != SL_PARTITION_NO_PART && s->votes[p]++ == 0)
                s->voted[n++] = p;
        }
    }
    return n;
}

// votes - price * held / capacity, free of fractions.
static __int128 score_of(const struct stream *s, const struct load *load, uint32_t p)
{
    const struct sl_dataset *ds = s->task->ds;
    return (__int128)s->votes[p] * ds->n_nodes * load->capacity -
           (__int128)ds->n_edges * PRICE * load->n[p];
}

// Of equals the part that holds less, then the first.
static uint32_t choose(struct stream *s, const struct load *load, uint32_t n_voted)
{
    // Of the parts without a vote this is the best one, or it has votes and beats them.
    uint32_t best = load->least[1];
    __int128 best_score = score_of(s, load, best);
    for (uint32_t i = 0; i < n_voted; i++) {
        const uint32_t p = s->voted[i];
        const __int128 score = score_of(s, load, p);
        const bool ahead = load->n[p] < load->n[best] || (load->n[p] == load->n[best] && p < best);
        if (load->n[p] < load->capacity && (score > best_score || (score == best_score && ahead))) {
            best = p;
            best_score = score;
        }
    }
    for (uint32_t i = 0; i < n_voted; i++)
        s->votes[s->voted[i]] = 0;
    return best;
}

static int pass(struct stream *s)
{
    for (uint64_t v = 0; v < s->task->ds->n_nodes; v++) {
        struct load *load = &s->load[sl_parts_is_training(s->task->training, v)];
        if (s->part[v] != SL_PARTITION_NO_PART)
            add(s, load, s->part[v], -1);
        s->part[v] = SL_PARTITION_NO_PART; // a self-loop is no vote
        const uint32_t p = choose(s, load, count_votes(s, v));
        s->part[v] = (uint16_t)p;
        add(s, load, p, 1);
        SL_TRY(sl_parts_tick(s->task->progress, v));
    }
    return SL_OK;
}

static int partition(struct stream *s)
{
    static const char *const names[PASSES] = {"first pass", "second pass", "third pass",
                                              "fourth pass", "fifth pass"};
    const struct sl_parts_task *t = s->task;
    const uint64_t n_training = t->ds->split[SL_SPLIT_TRAIN].n;
    while (s->leaves < t->n_parts)
        s->leaves *= 2;
    s->votes = calloc(t->n_parts, sizeof *s->votes);
    s->voted = calloc(t->n_parts, sizeof *s->voted);
    if (!s->votes || !s->voted || init_load(s, t->ds->n_nodes - n_training, &s->load[false]) < 0 ||
        init_load(s, n_training, &s->load[true]) < 0)
        return sl_fail(SL_ENOMEM, "partition %s: no memory for 60 bytes a part", t->ds->path);
    memset(s->part, 0xff, t->ds->n_nodes * sizeof *s->part); // SL_PARTITION_NO_PART
    for (int i = 0; i < PASSES; i++) {
        sl_progress_begin(t->progress, names[i], t->ds->n_nodes, "vertices");
        SL_TRY(pass(s));
    }
    return SL_OK;
}

int sl_stream_partition(const struct sl_parts_task *t, uint16_t *part)
{
    struct stream s = {.task = t, .part = part, .leaves = 1};
    const int rc = partition(&s);
    for (int i = 0; i < 2; i++) {
        free(s.load[i].n);
        free(s.load[i].least);
    }
    free(s.votes);
    free(s.voted);
    return rc;
}
