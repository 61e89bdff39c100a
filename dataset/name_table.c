#include "dataset/name_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "dataset/name_key.h"

enum {
    HEAD_BYTES = 6, // number, length
    MIN_SLOTS = 64,
    PLACE_BITS = 40,
    NAMES_LEAST = 4,       // of the longest, whatever the bound
    LARGE_BYTES = 4 << 20, // of slots
};

#define PLACE_MASK ((UINT64_C(1) << PLACE_BITS) - 1)

// Multiply and fold, eight bytes at a time; all that is asked of it is to spread names.
static uint64_t hash_of(const char *name, size_t n)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ n;
    for (;;) {
        uint64_t word = 0;
        size_t take = SL_MIN(n, (size_t)8);
        memcpy(&word, name, take);
        __uint128_t product = (__uint128_t)(h ^ word) * UINT64_C(0xd6e8feb86659fd93);
        h = (uint64_t)product ^ (uint64_t)(product >> 64);
        if (n <= 8)
            return h ^ h >> 32;
        name += take;
        n -= take;
    }
}

// Zeroed. Slots are met at random: those of a large table are in large pages.
static uint64_t *alloc_slots(size_t n)
{
    size_t bytes = n * sizeof(uint64_t);
    return bytes < LARGE_BYTES ? calloc(n, sizeof(uint64_t)) : sl_pages_alloc(bytes);
}

static void free_slots(uint64_t *slots, size_t n)
{
    size_t bytes = n * sizeof(uint64_t);
    if (bytes < LARGE_BYTES)
        free(slots);
    else
        sl_pages_free(slots, bytes);
}

int sl_name_table_init(struct sl_name_table *t, uint64_t memory_bytes)
{
    *t = (struct sl_name_table){.n_slots = MIN_SLOTS};
    uint64_t text = SL_MIN(memory_bytes / 2, PLACE_MASK);
    t->text_bytes = (size_t)SL_MAX(text, (uint64_t)NAMES_LEAST * (HEAD_BYTES + SL_NAME_MAX_BYTES));
    t->max_slots = MIN_SLOTS;
    // Growing holds the old slots beside the new ones.
    while (t->max_slots * 2 * sizeof *t->slots * 3 / 2 <= memory_bytes / 2)
        t->max_slots *= 2;
    t->text = sl_pages_alloc(t->text_bytes);
    t->slots = alloc_slots(t->n_slots);
    if (t->text && t->slots)
        return SL_OK;
    sl_name_table_fini(t);
    return sl_fail(SL_ENOMEM, "names of vertices: no memory: give a smaller --memory");
}

void sl_name_table_fini(struct sl_name_table *t)
{
    sl_pages_free(t->text, t->text_bytes);
    free_slots(t->slots, t->n_slots);
    memset(t, 0, sizeof *t);
}

void sl_name_table_clear(struct sl_name_table *t)
{
    memset(t->slots, 0, t->n_slots * sizeof *t->slots);
    t->used = 0;
    t->n = 0;
}

// The slot that has the name, or the free one where it belongs.
static uint64_t *find_slot(const struct sl_name_table *t, const char *name, size_t n, uint64_t hash)
{
    for (size_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        uint64_t slot = t->slots[i];
        if (slot == 0)
            return &t->slots[i];
        if (slot >> PLACE_BITS != hash >> PLACE_BITS)
            continue;
        const char *entry = t->text + (slot & PLACE_MASK) - 1;
        uint16_t length;
        memcpy(&length, entry + 4, sizeof length);
        if (length == n && memcmp(entry + HEAD_BYTES, name, n) == 0)
            return &t->slots[i];
    }
}

static int grow(struct sl_name_table *t)
{
    size_t at = 0, n;
    const char *name;
    uint64_t *slots = alloc_slots(t->n_slots * 2);
    if (!slots)
        return sl_fail(SL_ENOMEM, "names of vertices: no memory: give a smaller --memory");
    free_slots(t->slots, t->n_slots);
    t->slots = slots;
    t->n_slots *= 2;
    while (sl_name_table_next(t, &at, &name, &n)) {
        uint64_t hash = hash_of(name, n);
        size_t place = (size_t)(name - HEAD_BYTES - t->text);
        *find_slot(t, name, n, hash) = hash >> PLACE_BITS << PLACE_BITS | (place + 1);
    }
    return SL_OK;
}

void sl_name_table_expect(const struct sl_name_table *t, const char *name, size_t n)
{
    __builtin_prefetch(&t->slots[hash_of(name, n) & (t->n_slots - 1)]);
}

int sl_name_table_put(struct sl_name_table *t, const char *name, size_t n, uint32_t *number,
                      bool *full)
{
    uint64_t hash = hash_of(name, n);
    uint64_t *slot = find_slot(t, name, n, hash);
    *full = false;
    if (*slot) {
        memcpy(number, t->text + (*slot & PLACE_MASK) - 1, sizeof *number);
        return SL_OK;
    }
    if ((size_t)t->n * 2 >= t->n_slots) {
        *full = t->n_slots == t->max_slots;
        if (*full)
            return SL_OK;
        SL_TRY(grow(t));
        slot = find_slot(t, name, n, hash);
    }
    if (HEAD_BYTES + n > t->text_bytes - t->used) {
        *full = true;
        return SL_OK;
    }
    char *entry = t->text + t->used;
    uint16_t length = (uint16_t)n;
    *number = t->n++;
    memcpy(entry, number, sizeof *number);
    memcpy(entry + 4, &length, sizeof length);
    memcpy(entry + HEAD_BYTES, name, n);
    *slot = hash >> PLACE_BITS << PLACE_BITS | (t->used + 1);
    t->used += HEAD_BYTES + n;
    return SL_OK;
}

bool sl_name_table_find(const struct sl_name_table *t, const char *name, size_t n, uint32_t *number)
{
    const uint64_t *slot = find_slot(t, name, n, hash_of(name, n));
    if (*slot)
        memcpy(number, t->text + (*slot & PLACE_MASK) - 1, sizeof *number);
    return *slot != 0;
}

bool sl_name_table_next(const struct sl_name_table *t, size_t *at, const char **name, size_t *n)
{
    uint16_t length;
    if (*at >= t->used)
        return false;
    memcpy(&length, t->text + *at + 4, sizeof length);
    *name = t->text + *at + HEAD_BYTES;
    *n = length;
    *at += HEAD_BYTES + length;
    return true;
}
