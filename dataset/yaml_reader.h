/*
 * yaml_reader.h - the part of YAML that hand-written and dumped configuration files use, as a cJSON
 * tree.
 *
 * Read: block mappings and sequences (also "- key: value", also a sequence at its key's own
 * indentation), plain and quoted scalars, flow lists and mappings on one line ([a, b], {k: v}),
 * comments, one document with or without "---". null, ~ and nothing are null; true and false,
 * numbers and text as in JSON's sense. Refused with the line: tabs as indentation, anchors and
 * aliases, tags, block scalars (| and >), complex keys, scalars over several lines, several
 * documents, repeated keys.
 */
#ifndef SL_DATASET_YAML_READER_H
#define SL_DATASET_YAML_READER_H

#include <stddef.h>

#include <cjson/cJSON.h>

// The root (owned: cJSON_Delete). SL_ENOENT, SL_EACCESS, SL_EIO, SL_EFORMAT with file and line.
int sl_yaml_read(const char *path, cJSON **out);

// The same of text (n bytes; a zero byte is an error); `name` is for messages.
int sl_yaml_parse(const char *text, size_t n, const char *name, cJSON **out);

#endif
