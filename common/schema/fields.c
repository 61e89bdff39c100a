#include "common/schema/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text/json.h"

bool sl_field_is_known(const struct sl_field *f, const void *record)
{
    switch (f->type) {
    case SL_FIELD_REAL:
    case SL_FIELD_WHOLE:
    case SL_FIELD_TIME: return isfinite(sl_field_number(f, record));
    case SL_FIELD_POSITIVE: return sl_field_number(f, record) > 0;
    case SL_FIELD_NOTE:
    case SL_FIELD_TEXT: return sl_field_text(f, record) != NULL;
    case SL_FIELD_TREE: return sl_field_tree(f, record) != NULL;
    case SL_FIELD_FLAG:
    case SL_FIELD_RECORD:
    case SL_FIELD_OBJECT:
    case SL_FIELD_PART: break;
    }
    return true;
}

bool sl_field_is_given(const struct sl_field *f, const void *record)
{
    const bool *flag = (const void *)((const char *)record + f->given - 1);
    return (!f->given || *flag) && (f->type != SL_FIELD_NOTE || sl_field_is_known(f, record));
}

size_t sl_fields_within(const struct sl_field *object, const struct sl_field *end,
                        const void *record, bool *known)
{
    size_t length = strlen(object->path);
    const struct sl_field *f = object + 1;
    *known = false;
    for (; f < end && strncmp(f->path, object->path, length) == 0 && f->path[length] == '.'; f++)
        *known = *known || sl_field_is_known(f, record);
    return (size_t)(f - object) - 1;
}

// --- reading -------------------------------------------------------------------------------------

static bool is_tree(const cJSON *v)
{
    return cJSON_IsArray(v) || cJSON_IsObject(v);
}

// Gives every member the value of its type.
static void set(const struct sl_fields *r, const cJSON *object, const char *text, void *record)
{
    for (const struct sl_field *f = r->fields; f < r->fields + r->n; f++) {
        const cJSON *v = sl_json_at(object, f->path);
        void *at = (char *)record + f->at;
        switch (f->type) {
        case SL_FIELD_REAL:
        case SL_FIELD_WHOLE:
        case SL_FIELD_POSITIVE:
        case SL_FIELD_TIME: *(double *)at = cJSON_IsNumber(v) ? v->valuedouble : NAN; break;
        case SL_FIELD_FLAG: *(bool *)at = cJSON_IsTrue(v); break;
        case SL_FIELD_NOTE:
        case SL_FIELD_TEXT: *(const char **)at = cJSON_IsString(v) ? v->valuestring : text; break;
        case SL_FIELD_TREE: *(const cJSON **)at = is_tree(v) ? v : NULL; break;
        case SL_FIELD_RECORD: set(f->record, v, text, at); break;
        case SL_FIELD_OBJECT:
        case SL_FIELD_PART: break;
        }
    }
}

void sl_fields_clear(const struct sl_fields *r, void *record)
{
    set(r, NULL, NULL, record);
}

void sl_fields_read(const struct sl_fields *r, const cJSON *object, void *record)
{
    set(r, object, "", record);
}

// --- writing -------------------------------------------------------------------------------------

// The object that a path's last key is in, which is made if need be; the key goes to `key`.
static cJSON *object_of(cJSON *root, const char *path, char key[64])
{
    cJSON *object = root;
    for (size_t n; path[n = strcspn(path, ".")]; path += n + 1) {
        snprintf(key, 64, "%.*s", (int)n, path);
        cJSON *next = cJSON_GetObjectItemCaseSensitive(object, key);
        object = next ? next : cJSON_AddObjectToObject(object, key);
    }
    snprintf(key, 64, "%s", path);
    return object;
}

static void write_field(const struct sl_field *f, const void *record, cJSON *object,
                        const char *key)
{
    if (!sl_field_is_known(f, record)) {
        cJSON_AddNullToObject(object, key);
        return;
    }
    switch (f->type) {
    case SL_FIELD_REAL:
    case SL_FIELD_WHOLE:
    case SL_FIELD_POSITIVE:
    case SL_FIELD_TIME: cJSON_AddNumberToObject(object, key, sl_field_number(f, record)); break;
    case SL_FIELD_FLAG: cJSON_AddBoolToObject(object, key, sl_field_flag(f, record)); break;
    case SL_FIELD_NOTE:
    case SL_FIELD_TEXT: cJSON_AddStringToObject(object, key, sl_field_text(f, record)); break;
    case SL_FIELD_TREE:
        cJSON_AddItemReferenceToObject(object, key, sl_field_tree(f, record));
        break;
    case SL_FIELD_RECORD:
        sl_fields_write(f->record, (const char *)record + f->at,
                        cJSON_AddObjectToObject(object, key));
        break;
    case SL_FIELD_OBJECT:
    case SL_FIELD_PART: break;
    }
}

void sl_fields_write(const struct sl_fields *r, const void *record, cJSON *object)
{
    const struct sl_field *end = r->fields + r->n;
    char key[64];
    for (const struct sl_field *f = r->fields; f < end; f++) {
        bool known = true;
        if (!sl_field_is_given(f, record))
            continue;
        cJSON *in = object_of(object, f->path, key);
        size_t within = f->type == SL_FIELD_OBJECT ? sl_fields_within(f, end, record, &known) : 0;
        if (f->type != SL_FIELD_OBJECT) {
            write_field(f, record, in, key);
        } else if (!known) {
            cJSON_AddNullToObject(in, key);
            f += within;
        }
    }
}

const struct sl_field *sl_fields_family(const struct sl_fields *r, unsigned number)
{
    for (size_t i = 0; i < r->n; i++)
        if (number && r->fields[i].family.number == number)
            return &r->fields[i];
    return NULL;
}
