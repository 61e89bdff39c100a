#include "common/schema/fields.h"

#include <math.h>

#include "common/text/json.h"

bool sl_field_is_known(const struct sl_field *f, const void *record)
{
    switch (f->type) {
    case SL_FIELD_REAL:
    case SL_FIELD_WHOLE:
    case SL_FIELD_TIME: return isfinite(sl_field_number(f, record));
    case SL_FIELD_TEXT: return sl_field_text(f, record) != NULL;
    case SL_FIELD_FLAG:
    case SL_FIELD_OBJECT:
    case SL_FIELD_PART: break;
    }
    return true;
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
        case SL_FIELD_TIME: *(double *)at = cJSON_IsNumber(v) ? v->valuedouble : NAN; break;
        case SL_FIELD_FLAG: *(bool *)at = cJSON_IsTrue(v); break;
        case SL_FIELD_TEXT: *(const char **)at = cJSON_IsString(v) ? v->valuestring : text; break;
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

const struct sl_field *sl_fields_family(const struct sl_fields *r, unsigned number)
{
    for (size_t i = 0; i < r->n; i++)
        if (number && r->fields[i].family.number == number)
            return &r->fields[i];
    return NULL;
}
