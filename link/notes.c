#include "link/notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

// A note on its way to one node.
struct sl_link_note_out {
    struct sl_link_note_out *next;
    struct sl_world_request request;
    struct sl_link_note note;
};

int sl_link_notes_init(struct sl_link_notes *n, const struct sl_world *w)
{
    *n = (struct sl_link_notes){.ended = calloc(w->size, sizeof *n->ended),
                                .ready = calloc(w->size, sizeof *n->ready),
                                .quiet = calloc(w->size, sizeof *n->quiet)};
    return n->ended && n->ready && n->quiet
               ? SL_OK
               : sl_fail(SL_ENOMEM, "notes of %u nodes: no memory", w->size);
}

static void mark(struct sl_link_notes *n, uint32_t node, uint32_t kind)
{
    if (kind == SL__CONTROL__NOTE_KIND__NOTE_END)
        n->ended[node] = true;
    if (kind == SL_LINK_NOTE_READY)
        n->ready[node] = true;
    if (kind == SL_LINK_NOTE_QUIET)
        n->quiet[node] = true;
}

static int send(struct sl_link_notes *n, struct sl_world *w, uint32_t to,
                const struct sl_link_note *note)
{
    struct sl_link_note_out *out = calloc(1, sizeof *out);
    if (!out)
        return sl_fail(SL_ENOMEM, "a note to %s: no memory", sl_world_name(w, to).text);
    out->note = *note;
    int rc = w->table->send(to, SL_WORLD_TAG_NOTE, &out->note, sizeof out->note, &out->request);
    if (rc < 0) {
        free(out);
        return sl_fail_prefix(rc, "%s: %s", w->doing, sl_world_name(w, to).text);
    }
    out->next = n->out;
    n->out = out;
    return SL_OK;
}

int sl_link_notes_say(struct sl_link_notes *n, struct sl_world *w, const struct sl_link_note *note)
{
    int rc = SL_OK;
    mark(n, w->rank, note->kind);
    // One that is not reached keeps it from nobody else.
    for (uint32_t to = 0; to < w->size; to++)
        if (to != w->rank) {
            const int one = send(n, w, to, note);
            rc = one < 0 ? one : rc;
        }
    return rc;
}

static int test_sent(struct sl_link_notes *n, struct sl_world *w)
{
    for (struct sl_link_note_out **at = &n->out; *at;) {
        struct sl_link_note_out *out = *at;
        int rc = w->table->test(&out->request);
        if (rc == SL_EAGAIN) {
            at = &out->next;
            continue;
        }
        *at = out->next;
        free(out);
        SL_TRY(rc);
    }
    return SL_OK;
}

static int hand_over(struct sl_worker *worker, uint32_t from, struct sl_link_note *note)
{
    Sl__Control__Note body = SL__CONTROL__NOTE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    note->text[sizeof note->text - 1] = '\0';
    body.kind = (Sl__Control__NoteKind)note->kind;
    body.status = note->status;
    body.text = note->text;
    body.node = from;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_NOTE;
    e.note = &body;
    return sl_worker_send(worker, &e);
}

static int check(const struct sl_world *w, uint32_t from, uint32_t kind)
{
    if (kind == SL_LINK_NOTE_READY || kind == SL_LINK_NOTE_QUIET ||
        protobuf_c_enum_descriptor_get_value(&sl__control__note_kind__descriptor, (int)kind))
        return SL_OK;
    return sl_fail(SL_EPROTO, "%s: %s sends a note of kind %u, which there is not", w->doing,
                   sl_world_name(w, from).text, kind);
}

// It is there already: probe() has said so.
static int take(struct sl_world *w, uint32_t from, size_t n, struct sl_link_note *note)
{
    struct sl_world_request request;
    int rc;
    if (n != sizeof *note)
        return sl_fail(SL_EPROTO, "%s: %s sends a note of %zu bytes: wanted %zu", w->doing,
                       sl_world_name(w, from).text, n, sizeof *note);
    SL_TRY(w->table->receive(from, SL_WORLD_TAG_NOTE, note, sizeof *note, &request));
    while ((rc = w->table->test(&request)) == SL_EAGAIN)
        SL_TRY(sl_world_look(w));
    return rc;
}

int sl_link_notes_poll(struct sl_link_notes *n, struct sl_world *w, struct sl_worker *worker,
                       bool *moved)
{
    struct sl_worker_note own;
    struct sl_link_note note;
    uint32_t from;
    size_t bytes;
    int rc;
    while (sl_worker_take_note(worker, &own)) {
        *moved = true;
        memcpy(&note, &own, sizeof note);
        SL_TRY(sl_link_notes_say(n, w, &note));
    }
    SL_TRY(test_sent(n, w));
    while ((rc = w->table->probe(SL_WORLD_TAG_NOTE, &from, &bytes)) == SL_OK) {
        *moved = true;
        SL_TRY(take(w, from, bytes, &note));
        SL_TRY(check(w, from, note.kind));
        mark(n, from, note.kind);
        if (note.kind < SL_LINK_NOTE_READY)
            SL_TRY(hand_over(worker, from, &note));
    }
    return rc == SL_EAGAIN ? SL_OK : rc;
}

bool sl_link_notes_all(const struct sl_link_notes *n, const struct sl_world *w, const bool *said)
{
    for (uint32_t i = 0; i < w->size; i++)
        if (!said[i])
            return false;
    return !n->out;
}

void sl_link_notes_fini(struct sl_link_notes *n)
{
    while (n->out) {
        struct sl_link_note_out *next = n->out->next;
        free(n->out);
        n->out = next;
    }
    free(n->ended);
    free(n->ready);
    free(n->quiet);
    *n = (struct sl_link_notes){0};
}
