/*
 * json_writer.h - one line of JSON, written from front to back into memory that is kept.
 *
 * Lines that are sent every second are written without a tree: the text's memory grows to the
 * longest line and stays. Commas are set by the writer; keys are NULL inside arrays. Numbers that
 * are not finite become null, which means "not known".
 */
#ifndef SL_BROKER_LOG_JSON_WRITER_H
#define SL_BROKER_LOG_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/schema/fields.h"
#include "common/text/text.h"

struct sl_json_writer {
    struct sl_text text; // owned
    bool comma;          // before the next member
};

// Empties it; its memory stays.
void sl_json_reset(struct sl_json_writer *w);
void sl_json_fini(struct sl_json_writer *w); // safe on a zeroed struct

// The text, or NULL when there was no memory for it. Borrowed, until the next reset.
const char *sl_json_text(const struct sl_json_writer *w);

void sl_json_open_object(struct sl_json_writer *w, const char *key);
void sl_json_close_object(struct sl_json_writer *w);
void sl_json_open_array(struct sl_json_writer *w, const char *key);
void sl_json_close_array(struct sl_json_writer *w);

void sl_json_add_string(struct sl_json_writer *w, const char *key, const char *value); // NULL: null
void sl_json_add_real(struct sl_json_writer *w, const char *key, double value);        // 9 digits
void sl_json_add_time(struct sl_json_writer *w, const char *key, double value); // milliseconds
void sl_json_add_whole(struct sl_json_writer *w, const char *key, uint64_t value);
void sl_json_add_bool(struct sl_json_writer *w, const char *key, bool value);
void sl_json_add_null(struct sl_json_writer *w, const char *key);
void sl_json_add_raw(struct sl_json_writer *w, const char *key, const char *json); // NULL: null

// The members of an object that is open, from a record and its table. `part` writes the keys that
// have no member; NULL: there are none. Trees and records within the record are not written.
void sl_json_add_fields(struct sl_json_writer *w, const struct sl_fields *r, const void *record,
                        void (*part)(void *arg, const char *key, struct sl_json_writer *w),
                        void *arg);

#endif
