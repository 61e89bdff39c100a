/*
 * yaml_reader.h - a YAML file as a cJSON tree, by libyaml.
 *
 * One document of mappings, sequences and scalars. A scalar without quotes is null, true, false or
 * a number where it looks like one, else text. Refused with the line: anchors and aliases, tags
 * other than !!str, keys that are no scalars, repeated keys, a second document.
 */
#ifndef SL_DATASET_YAML_READER_H
#define SL_DATASET_YAML_READER_H

#include <stddef.h>

#include <cjson/cJSON.h>

// The root (owned: cJSON_Delete). SL_ENOENT, SL_EACCESS, SL_EIO, SL_EFORMAT with file and line.
int sl_yaml_read(const char *path, cJSON **out);

// The same of text (n bytes); `name` is for messages.
int sl_yaml_parse(const char *text, size_t n, const char *name, cJSON **out);

#endif
