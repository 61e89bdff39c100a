/*
 * json.h - reads values from a JSON tree of another program: what is missing, or of another type,
 * is unknown.
 *
 * A path is a key, or keys of objects within objects with dots between them: "queue.depth". None of
 * our keys has a dot in it.
 */
#ifndef SL_TEXT_JSON_H
#define SL_TEXT_JSON_H

#include <cjson/cJSON.h>

// NULL when there is none.
const cJSON *sl_json_at(const cJSON *object, const char *path);

double sl_json_number(const cJSON *object, const char *path);      // NAN when it is not known
const char *sl_json_string(const cJSON *object, const char *path); // "" when it is not known

// Unknown values become null: a text that is "" or NULL, a number that is not finite.
void sl_json_add_text(cJSON *object, const char *key, const char *text);
void sl_json_add_number(cJSON *object, const char *key, double value);

#endif
