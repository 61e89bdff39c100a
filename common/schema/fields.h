/*
 * fields.h - a struct whose members are told as JSON: one table says their names, types and places.
 *
 * Who writes the struct and who reads it back walk the same table, so a figure that is added to the
 * table is written, read and told to Prometheus without another line. Numbers are doubles, and NaN
 * is one that is not known: null. Texts are borrowed, and NULL is null.
 *
 * A path is a key, or keys of objects within objects with dots between them: "queue.bytes". Fields
 * of one object stand together.
 */
#ifndef SL_COMMON_SCHEMA_FIELDS_H
#define SL_COMMON_SCHEMA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

enum sl_field_type {
    SL_FIELD_REAL,
    SL_FIELD_WHOLE,
    SL_FIELD_TIME, // Unix seconds
    SL_FIELD_FLAG,
    SL_FIELD_TEXT,
    SL_FIELD_OBJECT, // no member: where nothing in it is known, the object is null
    SL_FIELD_PART,   // no member: who writes has this key by hand
};

// What Prometheus is told of a field. Families have numbers from 1 on in the order in which they
// are told; 0 = it is told nothing of it.
struct sl_family {
    unsigned number;
    const char *type, *name, *help;
};

struct sl_field {
    const char *path;
    enum sl_field_type type;
    size_t at;
    struct sl_family family;
};

struct sl_fields {
    const struct sl_field *fields; // (n)
    size_t n;
};

#define SL_FIELDS(fields_)                                                                         \
    {                                                                                              \
        (fields_), sizeof(fields_) / sizeof *(fields_)                                             \
    }

// Of fields that have a member.
static inline double sl_field_number(const struct sl_field *f, const void *record)
{
    const void *at = (const char *)record + f->at;
    return *(const double *)at;
}

static inline const char *sl_field_text(const struct sl_field *f, const void *record)
{
    const void *at = (const char *)record + f->at;
    return *(const char *const *)at;
}

static inline bool sl_field_flag(const struct sl_field *f, const void *record)
{
    const void *at = (const char *)record + f->at;
    return *(const bool *)at;
}

// Whether there is anything but null to tell of it.
bool sl_field_is_known(const struct sl_field *f, const void *record);

// Nothing is known.
void sl_fields_clear(const struct sl_fields *r, void *record);

// Takes all fields from an object; what is not there, or of another type, is NaN, false or "".
// Texts are the tree's.
void sl_fields_read(const struct sl_fields *r, const cJSON *object, void *record);

// The family of that number; NULL: there are not so many.
const struct sl_field *sl_fields_family(const struct sl_fields *r, unsigned number);

#endif
