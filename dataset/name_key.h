/*
 * name_key.h - the order of names: whole numbers by their value, then all other names by their
 * bytes.
 *
 * Whole numbers are digits without zeros in front: "007" is text, and not the name "7". A key holds
 * a name so that memcmp() of two keys is this order: two bytes that say how many digits follow, or
 * 0xff and the text.
 */
#ifndef SL_DATASET_NAME_KEY_H
#define SL_DATASET_NAME_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SL_NAME_MAX_BYTES = 4096, SL_NAME_KEY_BYTES = SL_NAME_MAX_BYTES + 2 };

static inline bool sl_name_is_number(const char *name, size_t n)
{
    if (n == 0 || (name[0] == '0' && n > 1))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)(name[i] - '0') > 9)
            return false;
    return true;
}

// name (n, at most SL_NAME_MAX_BYTES) as a key (SL_NAME_KEY_BYTES); returns its length.
static inline uint32_t sl_name_key(const char *name, size_t n, unsigned char *key)
{
    size_t head = sl_name_is_number(name, n) ? 2 : 1;
    key[0] = head == 2 ? (unsigned char)(n >> 8) : 0xff;
    if (head == 2)
        key[1] = (unsigned char)n;
    memcpy(key + head, name, n);
    return (uint32_t)(head + n);
}

// The name in a key; borrowed from it.
static inline const char *sl_name_of_key(const void *key, uint32_t key_bytes, size_t *n)
{
    const unsigned char *bytes = key;
    uint32_t head = bytes[0] == 0xff ? 1 : 2;
    *n = key_bytes - head;
    return (const char *)bytes + head;
}

// As memcmp() of two keys.
static inline int sl_name_key_compare(const void *a, uint32_t n_a, const void *b, uint32_t n_b)
{
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order ? order : n_a < n_b ? -1 : n_a > n_b;
}

#endif
