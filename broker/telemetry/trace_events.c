#include "broker/telemetry/trace_events.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/bits.h"

// A wait that is shorter is the look at the version itself.
enum { WAIT_MIN_NS = 5000, NUMBER_BYTES = 48, NAME_BYTES = 400 };

static uint64_t start_of(const struct sl_trace_events *e, uint64_t ns)
{
    return ns > e->from_ns ? ns - e->from_ns : 0;
}

static void add_us(struct sl_trace_events *e, const char *key, uint64_t ns)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
    sl_json_add_raw(&e->json, key, text);
}

// What all events have; the object stays open.
static void open_event(struct sl_trace_events *e, const char *phase, const char *name,
                       uint32_t process, uint32_t thread)
{
    e->n++;
    sl_json_open_object(&e->json, NULL);
    sl_json_add_string(&e->json, "ph", phase);
    sl_json_add_string(&e->json, "name", name);
    sl_json_add_whole(&e->json, "pid", process + e->node * SL_TRACE_NODE_PROCESSES);
    sl_json_add_whole(&e->json, "tid", thread);
}

static void close_event(struct sl_trace_events *e)
{
    sl_json_close_object(&e->json);
}

void sl_trace_events_reset(struct sl_trace_events *e)
{
    sl_json_reset(&e->json);
    e->n = 0;
}

void sl_trace_events_cut(struct sl_trace_events *e, size_t bytes, uint64_t n)
{
    e->json.text.n = bytes;
    e->json.comma = bytes > 0;
    if (e->json.text.s)
        e->json.text.s[bytes] = '\0';
    e->n = n;
}

// --- names, counters, instants -------------------------------------------------------------------

static void add_metadata(struct sl_trace_events *e, const char *what, uint32_t process,
                         uint32_t thread, const char *name)
{
    open_event(e, "M", what, process, thread);
    sl_json_open_object(&e->json, "args");
    if (name)
        sl_json_add_string(&e->json, "name", name);
    else
        sl_json_add_whole(&e->json, "sort_index",
                          thread ? thread : process + e->node * SL_TRACE_NODE_PROCESSES);
    sl_json_close_object(&e->json);
    close_event(e);
}

void sl_trace_add_process(struct sl_trace_events *e, uint32_t process, const char *name)
{
    char text[sizeof e->place + NAME_BYTES];
    snprintf(text, sizeof text, "%s%s%s", e->place, e->place[0] ? ": " : "", name);
    add_metadata(e, "process_name", process, 0, text);
    add_metadata(e, "process_sort_index", process, 0, NULL);
}

void sl_trace_add_thread(struct sl_trace_events *e, uint32_t process, uint32_t thread,
                         const char *name)
{
    add_metadata(e, "thread_name", process, thread, name);
    add_metadata(e, "thread_sort_index", process, thread, NULL);
}

void sl_trace_add_counter(struct sl_trace_events *e, const char *name, uint64_t at_ns,
                          uint64_t value)
{
    open_event(e, "C", name, SL_TRACE_JOB, 0);
    add_us(e, "ts", start_of(e, at_ns));
    sl_json_open_object(&e->json, "args");
    sl_json_add_whole(&e->json, name, value);
    sl_json_close_object(&e->json);
    close_event(e);
}

void sl_trace_add_instant(struct sl_trace_events *e, const char *kind, uint64_t at_ns,
                          const char *text)
{
    open_event(e, "i", kind, SL_TRACE_JOB, 1);
    sl_json_add_string(&e->json, "s", "p"); // as high as the process
    add_us(e, "ts", start_of(e, at_ns));
    sl_json_open_object(&e->json, "args");
    sl_json_add_string(&e->json, "text", text);
    sl_json_close_object(&e->json);
    close_event(e);
}

// --- batches -------------------------------------------------------------------------------------

// Whether any of it lies within the trace.
static bool is_seen(const struct sl_trace_events *e, uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > e->from_ns && to_ns >= from_ns && from_ns < e->to_ns;
}

// A slice; its args are open when `true` is returned, and end_slice() closes both.
static bool begin_slice(struct sl_trace_events *e, const struct sl_trace_batch *b,
                        enum sl_trace_thread thread, const char *name, uint64_t from_ns,
                        uint64_t to_ns)
{
    if (!is_seen(e, from_ns, to_ns))
        return false;
    uint64_t from = start_of(e, from_ns);
    open_event(e, "X", name, SL_TRACE_FIRST_DEVICE + b->device, thread);
    add_us(e, "ts", from);
    add_us(e, "dur", start_of(e, to_ns) - from);
    sl_json_open_object(&e->json, "args");
    sl_json_add_whole(&e->json, "epoch", b->spec->epoch);
    sl_json_add_whole(&e->json, "batch", b->cell);
    return true;
}

static void end_slice(struct sl_trace_events *e)
{
    sl_json_close_object(&e->json);
    close_event(e);
}

static void add_slice(struct sl_trace_events *e, const struct sl_trace_batch *b,
                      enum sl_trace_thread thread, const char *name, uint64_t from_ns,
                      uint64_t to_ns)
{
    if (begin_slice(e, b, thread, name, from_ns, to_ns))
        end_slice(e);
}

void sl_trace_add_drawn(struct sl_trace_events *e, const struct sl_trace_batch *b)
{
    const struct sl_batch_entry *entry = b->entry;
    const uint64_t end = entry->ready_at_ns;
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = {
        {"wait for memory", entry->sample_wait_ns >= WAIT_MIN_NS ? entry->sample_wait_ns : 0},
        {"draw", entry->sample_ns},
        {"copy", entry->copy_ns},
        {"mark", entry->mark_ns},
    };
    const char *name = b->spec->kind == SL_PHASE_PRESAMPLE ? "presample" : "sample";
    if (!begin_slice(e, b, SL_TRACE_SAMPLE, name, entry->sampling_at_ns, end))
        return;
    sl_json_add_whole(&e->json, "seeds", entry->n_seeds);
    sl_json_add_whole(&e->json, "input_nodes", entry->n_input);
    sl_json_add_whole(&e->json, "edges", entry->n_edges);
    sl_json_add_whole(&e->json, "bytes", entry->payload_bytes);
    end_slice(e);
    uint64_t at = entry->sampling_at_ns;
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++) {
        uint64_t to = SL_MIN(at + parts[i].ns, end);
        if (to > at)
            add_slice(e, b, SL_TRACE_SAMPLE, parts[i].name, at, to);
        at = to;
    }
}

static void add_id(struct sl_trace_events *e, const struct sl_trace_batch *b)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "0x%" PRIx64, (uint64_t)e->node << 56 | b->seq << 24 | b->cell);
    sl_json_add_string(&e->json, "id", text);
}

static void add_queued(struct sl_trace_events *e, const struct sl_trace_batch *b)
{
    const uint64_t at[2] = {b->entry->ready_at_ns, b->entry->claimed_at_ns};
    if (at[0] == 0 || !is_seen(e, at[0], at[1]))
        return;
    for (int i = 0; i < 2; i++) {
        open_event(e, i ? "e" : "b", "queued", SL_TRACE_JOB, 0);
        sl_json_add_string(&e->json, "cat", "queue");
        add_id(e, b);
        add_us(e, "ts", start_of(e, at[i]));
        sl_json_open_object(&e->json, "args");
        if (i == 0) {
            sl_json_add_whole(&e->json, "epoch", b->spec->epoch);
            sl_json_add_whole(&e->json, "batch", b->cell);
            sl_json_add_whole(&e->json, "bytes", b->entry->payload_bytes);
        }
        sl_json_close_object(&e->json);
        close_event(e);
    }
}

static void add_arrow(struct sl_trace_events *e, const struct sl_trace_batch *b, const char *phase,
                      uint32_t device, enum sl_trace_thread thread, uint64_t at_ns)
{
    open_event(e, phase, "batch", SL_TRACE_FIRST_DEVICE + device, thread);
    sl_json_add_string(&e->json, "cat", "batch");
    add_id(e, b);
    if (*phase == 'f')
        sl_json_add_string(&e->json, "bp", "e"); // binds to the slice that it lies in
    add_us(e, "ts", start_of(e, at_ns));
    close_event(e);
}

// Each end lies within its slice.
static void add_arrows(struct sl_trace_events *e, const struct sl_trace_batch *b,
                       uint32_t sampler_device)
{
    const struct sl_batch_entry *entry = b->entry;
    uint64_t tail = SL_MAX(entry->ready_at_ns - 1, entry->sampling_at_ns);
    if (!is_seen(e, entry->sampling_at_ns, entry->ready_at_ns) ||
        !is_seen(e, entry->extract_from_ns, entry->extract_from_ns + entry->extract_ns) ||
        !is_seen(e, entry->train_from_ns, entry->done_at_ns))
        return;
    add_arrow(e, b, "s", sampler_device, SL_TRACE_SAMPLE, tail);
    add_arrow(e, b, "t", b->device, SL_TRACE_EXTRACT, entry->extract_from_ns);
    add_arrow(e, b, "f", b->device, SL_TRACE_TRAIN, entry->train_from_ns);
}

static void add_extracted(struct sl_trace_events *e, const struct sl_trace_batch *b)
{
    const struct sl_batch_entry *entry = b->entry;
    if (entry->extract_from_ns == 0 ||
        !begin_slice(e, b, SL_TRACE_EXTRACT, "extract", entry->extract_from_ns,
                     entry->extract_from_ns + entry->extract_ns))
        return;
    sl_json_add_whole(&e->json, "input_nodes", entry->n_input);
    sl_json_add_whole(&e->json, "bytes",
                      entry->hit_bytes + entry->matched_bytes + entry->miss_bytes);
    sl_json_add_real(&e->json, "hit_rate",
                     entry->n_input ? (double)entry->hits / entry->n_input : 0);
    end_slice(e);
}

void sl_trace_add_trained(struct sl_trace_events *e, const struct sl_trace_batch *b,
                          int64_t sampler_device)
{
    const struct sl_batch_entry *entry = b->entry;
    const bool trains = b->spec->kind == SL_PHASE_TRAIN;
    add_queued(e, b);
    add_extracted(e, b);
    if (entry->train_from_ns > entry->taken_at_ns + WAIT_MIN_NS)
        add_slice(e, b, SL_TRACE_TRAIN, "wait for version", entry->taken_at_ns,
                  entry->train_from_ns);
    const char *what = trains ? "train" : b->spec->kind == SL_PHASE_LEND ? "own code" : "evaluate";
    if (!begin_slice(e, b, SL_TRACE_TRAIN, what, entry->train_from_ns, entry->done_at_ns))
        return;
    sl_json_add_whole(&e->json, "seeds", entry->n_seeds);
    sl_json_add_whole(&e->json, "edges", entry->n_edges);
    if (b->spec->kind == SL_PHASE_INFER)
        sl_json_add_whole(&e->json, "layer", b->spec->layer);
    if (trains && entry->weight > 0)
        sl_json_add_real(&e->json, "loss", entry->loss / entry->weight);
    if (entry->standby)
        sl_json_add_bool(&e->json, "standby", true);
    end_slice(e);
    if (entry->sum_ns > 0)
        add_slice(e, b, SL_TRACE_TRAIN, "sum", entry->sum_from_ns,
                  entry->sum_from_ns + entry->sum_ns);
    if (sampler_device >= 0)
        add_arrows(e, b, (uint32_t)sampler_device);
}

void sl_trace_add_applied(struct sl_trace_events *e, const struct sl_trace_batch *b,
                          const struct sl_update_entry *update)
{
    add_slice(e, b, SL_TRACE_TRAIN, "apply", update->from_ns, update->from_ns + update->took_ns);
}
