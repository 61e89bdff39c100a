// parse_internal.h - what the files that turn text into struct sl_config share.
#ifndef SL_CONFIG_PARSE_INTERNAL_H
#define SL_CONFIG_PARSE_INTERNAL_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "common/device/cores.h"
#include "config/config.h"
#include "config/keys_internal.h"

// One reading of one job.
struct sl_parse {
    const char *origin; // names the text in messages
    const struct sl_config_override *overrides;
    size_t n_overrides; // applied so far: a value's message names the override it came from
    cJSON *root;
    struct sl_config *out;
};

// How messages name the text; cut when it is long. Returns out.
enum { SL_PARSE_ORIGIN_BYTES = 260 };
char *sl_parse_origin(const struct sl_parse *p, char out[SL_PARSE_ORIGIN_BYTES]);

// Records "ORIGIN: PATH: message" and returns SL_EINVAL. An empty path is left out.
int sl_parse_fail(const struct sl_parse *p, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// A value as messages quote it: its JSON type and its text, cut when long.
enum { SL_PARSE_FOUND_BYTES = 128 };
void sl_parse_found(const cJSON *item, char out[SL_PARSE_FOUND_BYTES]);

// Reads the value of a key into its field; `base` is what the key's offsets count from, `path` the
// key's path with its list indices filled in.
int sl_parse_value(const struct sl_parse *p, const struct sl_key *key, const char *path,
                   const cJSON *item, void *base);

// Reads a fanout, a list or an object of lists, into the fields of its key (fanout.c).
int sl_parse_fanout(const struct sl_parse *p, const struct sl_key *key, const char *path,
                    const cJSON *item, void *base);

// Reads metapaths, an object of lists (metapaths.c).
int sl_parse_metapaths(const struct sl_parse *p, const char *path, const cJSON *object,
                       struct sl_metapaths *out);

// Reads all keys of the object `node` (of `scope`, "" or "devices[]." and the like; `shown` with
// its index).
int sl_parse_members(const struct sl_parse *p, const char *scope, const char *shown,
                     const cJSON *node, void *base);

// The value at a dotted path below node; NULL when it is not there.
cJSON *sl_parse_find(const cJSON *node, const char *path);

// Refuses keys of the object `node` that have no meaning beside another key's value, unless they
// state their default; scope, shown and base as above. Keys of a list's entries are checked with
// the entry.
int sl_parse_only_keys(const struct sl_parse *p, const char *scope, const char *shown,
                       const cJSON *node, const void *base);

// Applies "path=value" to the tree.
int sl_parse_override(const struct sl_parse *p, const char *text);

// What concerns several keys, and defaults that depend on other keys.
int sl_parse_resolve(const struct sl_parse *p);

/*
 * A fraction of evaluate.every, 1/n, is order.epochs_per_pass n with an evaluation after each
 * epoch, and n times what other keys count in epochs. After keys have been checked for a meaning.
 */
int sl_parse_resolve_fraction(const struct sl_parse *p);

// allocation.cores: whether devices are a pool of cores; before those of "auto" are listed.
int sl_parse_resolve_cores(const struct sl_parse *p);

// Devices and the split between samplers and trainers, against each other and this machine.
int sl_parse_resolve_split(const struct sl_parse *p);

// The split on the devices that there are; "auto" lists each core or GPU once.
int sl_parse_resolve_roles(const struct sl_parse *p);

// The default of allocation.switching, which depends on updates.exchange; before devices are known.
int sl_parse_resolve_exchange(const struct sl_parse *p);

// The largest number of trainers that the job can come to have without a request from outside.
uint32_t sl_parse_most_trainers(const struct sl_config *c);

// sl_config_check_learned(), of what has been read so far.
int sl_parse_check_learned(const struct sl_parse *p);

// Whether the devices on which a trainer may run satisfy updates.exchange. Devices are known.
int sl_parse_check_exchange(const struct sl_parse *p);

// "auto": one device for each core of a set that is not empty, in ascending order. With more cores
// than there can be devices, as few neighbouring cores as possible share one. The devices of c are
// zero before.
void sl_config_group_cores(const struct sl_cores *set, struct sl_config *c);

#endif
