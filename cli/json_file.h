// json_file.h - a whole file as a JSON tree.
#ifndef SL_CLI_JSON_FILE_H
#define SL_CLI_JSON_FILE_H

#include <stddef.h>

#include <cjson/cJSON.h>

// *out is owned: cJSON_Delete(). SL_ENOENT, SL_EACCESS, SL_EFORMAT (no JSON, or too large).
int sl_json_file_read(const char *path, size_t bytes_max, cJSON **out);

#endif
