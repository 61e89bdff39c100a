/*
 * borrower.c - the smallest external trainer: takes a seat, borrows batches epoch after epoch, and
 * writes a line for each thing that happens, with one write(2), so that whoever kills it knows how
 * far it was:
 *
 *     seat RANK WORKER       it works
 *     use EPOCH CELL SEEDS FIRST   a batch was looked at, FIRST is its first vertex; it is done
 *                                  just after
 *     epoch EPOCH            there is no more of it for this rank
 *     end TEXT               the job ended, in its broker's words (exit status 0)
 *     lost TEXT              the broker is gone (3)
 *     refused TEXT           it did not get a seat (2)
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/block.h"
#include "common/arena/ledger.h"
#include "common/bus/attach.h"
#include "tests/arguments.h"

enum { EXIT_REFUSED = 2, EXIT_LOST = 3, LOOK_MS = 60000 };

struct options {
    const char *path;
    uint32_t rank, epochs, leave_at, from_epoch, from_cell;
    bool any;
    const char *gate;
};

static struct options opt;

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    char line[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    line[n] = '\n';
    ssize_t ignored = write(STDOUT_FILENO, line, (size_t)n + 1);
    (void)ignored;
}

// With a gate, a FIFO, each byte lets a batch pass; behind its end all may.
static void pass_gate(void)
{
    static int fd = -1;
    char c;
    if (opt.gate && fd < 0)
        fd = open(opt.gate, O_RDONLY);
    if (opt.gate && read(fd, &c, 1) <= 0)
        opt.gate = NULL;
}

static int use(struct sl_worker *w, struct sl_worker_totals *figures, const struct sl_lease *lease,
               uint64_t asked_ns)
{
    struct sl_batch_entry *e = lease->entry;
    const struct sl_block *block = (const struct sl_block *)(w->arena.base + e->payload_offset);
    e->trainer = w->id;
    e->claimed_at_ns = e->taken_at_ns = e->train_from_ns = sl_now_ns();
    e->train_wait_ns = e->train_from_ns - asked_ns;
    figures->current_tag = lease->tag;
    sl_stats_publish(w->stats, figures);
    pass_gate();
    say("use %u %u %u %u", lease->phase->spec.epoch, lease->cell, block->n_seeds,
        sl_block_nodes(block)[0]);
    e->done_at_ns = sl_now_ns();
    e->train_ns = e->done_at_ns - e->train_from_ns;
    figures->batches++;
    figures->training++;
    figures->edges += e->n_edges;
    figures->stage_ns[SL_STAGE_TRAIN] += e->train_ns;
    figures->stage_ns[SL_STAGE_WAIT] += e->train_wait_ns;
    figures->current_tag = 0;
    int rc = sl_ledger_complete(&w->arena, lease);
    sl_stats_publish(w->stats, figures);
    if (rc == SL_ESTALE && sl_arena_aborted(&w->arena)) // a job that ends takes all batches back
        return SL_EABORTED;
    return rc;
}

static int work(struct sl_worker *w)
{
    struct sl_worker_totals figures = {0};
    struct sl_lease lease;
    uint32_t epoch = opt.from_epoch;
    struct sl_ledger_lent lent;
    if (opt.from_epoch || opt.from_cell)
        sl_ledger_leave(&w->arena, w->role_index, opt.from_epoch, opt.from_cell);
    else if (sl_ledger_look_lent(&w->arena, &lent)) // a successor goes on where the job is
        epoch = lent.epoch;
    const uint32_t end = opt.epochs ? epoch + opt.epochs : UINT32_MAX;
    for (uint32_t used = 0; epoch < end;) {
        const uint64_t asked_ns = sl_now_ns();
        int rc = SL_ERANGE;
        if (!opt.leave_at || used < opt.leave_at)
            rc = sl_ledger_claim_lent(&w->arena, w->id, w->role_index, epoch, LOOK_MS, &lease);
        if (rc == SL_ERANGE) {
            say("epoch %u", epoch++);
            sl_ledger_leave(&w->arena, w->role_index, epoch, 0);
            used = 0;
            continue;
        }
        SL_TRY(rc);
        SL_TRY(use(w, &figures, &lease, asked_ns));
        used++;
    }
    return SL_OK;
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("path", options, path),
    ARGUMENT_NUMBER("rank", options, rank, 0, 64),
    ARGUMENT_FLAG("any", options, any),
    ARGUMENT_NUMBER("epochs", options, epochs, 0, 1e6),
    ARGUMENT_NUMBER("leave-at", options, leave_at, 0, 1e6),
    ARGUMENT_NUMBER("from-epoch", options, from_epoch, 0, 1e6),
    ARGUMENT_NUMBER("from-cell", options, from_cell, 0, 1e6),
    ARGUMENT_TEXT("gate", options, gate),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "borrower",
    .is_program = true,
    .about = "Takes a seat of a job for external trainers and borrows its batches.",
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct sl_worker w;
    char why[SL_ATTACH_TEXT];
    arguments_parse(&command, &opt, argc, argv);
    const struct sl_attach_spec spec = {.path = opt.path,
                                        .rank = opt.any ? SL_ATTACH_ANY_RANK : (int32_t)opt.rank};
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    int rc = sl_attach(&spec, &w);
    if (rc == SL_OK)
        rc = sl_worker_attach(&w, &hello);
    if (rc == SL_OK)
        rc = sl_worker_ready(&w);
    if (rc < 0) {
        say("refused %s", sl_error_message());
        sl_worker_fini(&w);
        return EXIT_REFUSED;
    }
    say("seat %u %u", w.role_index, w.id);
    rc = work(&w);
    const bool lost = rc == SL_EABORTED && atomic_load(&w.lost);
    if (rc == SL_EABORTED)
        say("%s %s", lost ? "lost" : "end", sl_worker_end_text(&w, why, sizeof why));
    else if (rc < 0)
        say("error %s", sl_error_message());
    sl_worker_fini(&w);
    return lost ? EXIT_LOST : rc == SL_OK || rc == SL_EABORTED ? 0 : 1;
}
