/*
 * fields.h - a struct that is written as JSON: one table has its members' names, types and places.
 *
 * Who writes the struct and who reads it back walk the same table, so a figure that is added to the
 * table is written, read and shown to Prometheus and TensorBoard without another line. Numbers are
 * doubles; NaN means unknown, null in JSON. Texts are borrowed, and NULL is null.
 *
 * A path is a key, or keys of objects within objects with dots between them: "queue.bytes". Fields
 * of one object stand together.
 */
#ifndef SL_SCHEMA_FIELDS_H
#define SL_SCHEMA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

enum sl_field_type {
    SL_FIELD_REAL,
    SL_FIELD_WHOLE,
    SL_FIELD_POSITIVE, // 0 is not known either
    SL_FIELD_TIME,     // Unix seconds
    SL_FIELD_FLAG,
    SL_FIELD_TEXT,
    SL_FIELD_NOTE,   // a text that is left out where it is not known
    SL_FIELD_TREE,   // a list or an object, borrowed
    SL_FIELD_RECORD, // a struct with a table of its own
    SL_FIELD_OBJECT, // no member: where nothing in it is known, the object is null
    SL_FIELD_PART,   // no member: who writes has this key by hand
};

// How Prometheus sees a field. Families have numbers from 1 on, in the order of /metrics; 0 = not
// there.
struct sl_family {
    unsigned number;
    const char *type, *name, *help;
};

struct sl_field {
    const char *path;
    enum sl_field_type type;
    size_t at;
    struct sl_family family;
    const struct sl_fields *record; // of a RECORD
    const char *tag;                // in TensorBoard; NULL: not there
    size_t given;                   // 1 + the place of a flag without which it is left out; 0: none
};

struct sl_fields {
    const struct sl_field *fields; // (n)
    size_t n;
};

// clang-format off

// A line X(object, type, member, further members of the field) of a table, as a struct's field...
#define SL_FIELD(of, object, type_, name, ...) \
    {.path = #object #name, .type = SL_FIELD_##type_, .at = offsetof(struct of, object name), \
     __VA_ARGS__},
#define SL_FIELD_NULLABLE(path_) {.path = #path_, .type = SL_FIELD_OBJECT},
#define SL_FIELD_BY_HAND(path_)  {.path = #path_, .type = SL_FIELD_PART},

// ... and as its member, with BEGIN and END around those of an object.
#define SL_MEMBER(object, type, name, ...) SL_MEMBER_##type name;
#define SL_MEMBER_BEGIN()                  struct {
#define SL_MEMBER_END(name)                } name;
#define SL_MEMBER_NONE(...)
#define SL_MEMBER_REAL     double
#define SL_MEMBER_WHOLE    double
#define SL_MEMBER_POSITIVE double
#define SL_MEMBER_TIME     double
#define SL_MEMBER_FLAG     bool
#define SL_MEMBER_TEXT     const char *
#define SL_MEMBER_NOTE     const char *
#define SL_MEMBER_TREE     cJSON *
// clang-format on

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

static inline cJSON *sl_field_tree(const struct sl_field *f, const void *record)
{
    const void *at = (const char *)record + f->at;
    return *(cJSON *const *)at;
}

static inline bool sl_field_flag(const struct sl_field *f, const void *record)
{
    const void *at = (const char *)record + f->at;
    return *(const bool *)at;
}

// Whether its value is known (not null).
bool sl_field_is_known(const struct sl_field *f, const void *record);

// Whether the record has the field at all.
bool sl_field_is_given(const struct sl_field *f, const void *record);

// How many of the fields behind an object belong to it, and whether any of them is known.
size_t sl_fields_within(const struct sl_field *object, const struct sl_field *end,
                        const void *record, bool *known);

// Sets every field to unknown.
void sl_fields_clear(const struct sl_fields *r, void *record);

// Takes all fields from an object; what is not there, or of another type, is NaN, false, "" or
// NULL. Texts and trees are the object's.
void sl_fields_read(const struct sl_fields *r, const cJSON *object, void *record);

// Adds all fields to an object, without those that are written by hand. The record's trees are only
// referred to: they must live as long as the object.
void sl_fields_write(const struct sl_fields *r, const void *record, cJSON *object);

// The family of that number; NULL: there are not so many.
const struct sl_field *sl_fields_family(const struct sl_fields *r, unsigned number);

#endif
