#include "common/arena/group.h"

#include <string.h>

#include "common/base/error.h"

enum { VERSION_BITS = 24, WRITTEN_BITS = 16, WRITTEN_ALL = 0xffff };

#define VERSION_MASK (((uint64_t)1 << VERSION_BITS) - 1)

// The place of one device: written by its trainer alone, of which there is one at a time.
struct seat {
    _Alignas(64) _Atomic uint64_t named; // generation that the name is of
    _Atomic uint64_t name[SL_GROUP_NAME_BYTES / sizeof(uint64_t)];
};

// At the region's start; the seats stand behind it.
struct group {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) _Atomic uint64_t formed; // generation that the list is of
    _Atomic uint32_t n;
    _Atomic uint64_t member[SL_GROUP_MAX]; // worker << 32 | device
};

_Static_assert(sizeof(struct group) % 64 == 0, "the seats behind the group are aligned");

static struct group *group_of(const struct sl_arena *a)
{
    return sl_arena_region(a, SL_REGION_GROUP);
}

static struct seat *seat_of(const struct sl_arena *a, uint32_t device)
{
    return (struct seat *)(group_of(a) + 1) + device;
}

uint64_t sl_group_bytes(const struct sl_arena_spec *spec)
{
    return spec->exchange ? sizeof(struct group) + spec->n_devices * sizeof(struct seat) : 0;
}

// --- the word ---

static uint64_t make_word(uint64_t generation, uint64_t version, uint64_t written)
{
    return generation << (VERSION_BITS + WRITTEN_BITS) | (version & VERSION_MASK) << WRITTEN_BITS |
           written;
}

static uint64_t generation_of(uint64_t word)
{
    return word >> (VERSION_BITS + WRITTEN_BITS);
}

static uint64_t version_of(uint64_t word)
{
    return word >> WRITTEN_BITS & VERSION_MASK;
}

static uint64_t written_of(uint64_t word)
{
    return word & WRITTEN_ALL;
}

bool sl_group_is_current(const struct sl_arena *a, uint64_t generation)
{
    return generation_of(atomic_load(&group_of(a)->word)) == generation;
}

bool sl_group_is_reduced(const struct sl_arena *a, uint64_t version)
{
    uint64_t word = atomic_load(&group_of(a)->word);
    return version_of(word) == (version & VERSION_MASK) && written_of(word) == WRITTEN_ALL;
}

int sl_group_count_written(struct sl_arena *a, const struct sl_group_view *view, uint64_t version)
{
    struct group *g = group_of(a);
    uint64_t word = atomic_load(&g->word), next, written;
    do {
        if (generation_of(word) != view->generation)
            return SL_ESTALE;
        written = version_of(word) == (version & VERSION_MASK) ? written_of(word) : 0;
        if (written == WRITTEN_ALL)
            return SL_OK;
        if (++written == view->n)
            written = WRITTEN_ALL;
        next = make_word(view->generation, version, written);
    } while (!atomic_compare_exchange_weak(&g->word, &word, next));
    if (written == WRITTEN_ALL)
        sl_event_signal(&a->h->progress);
    return SL_OK;
}

// --- members ---

static uint64_t pack(const struct sl_group_member *m)
{
    return (uint64_t)m->worker << 32 | m->device;
}

static bool is_same(const struct group *g, const struct sl_group_member *members, uint32_t n)
{
    uint64_t formed = atomic_load(&g->formed);
    bool same =
        formed != 0 && generation_of(atomic_load(&g->word)) == formed && atomic_load(&g->n) == n;
    for (uint32_t i = 0; i < n && same; i++)
        same = atomic_load(&g->member[i]) == pack(&members[i]);
    return same;
}

// From here on nobody of the last generation can count himself; what all had counted stays.
static uint64_t next_generation(struct group *g)
{
    uint64_t word = atomic_load(&g->word), next;
    do {
        uint64_t written = written_of(word) == WRITTEN_ALL ? WRITTEN_ALL : 0;
        next = make_word(generation_of(word) + 1, version_of(word), written);
    } while (!atomic_compare_exchange_weak(&g->word, &word, next));
    return generation_of(next);
}

void sl_group_dissolve(struct sl_arena *a, uint32_t worker)
{
    struct group *g = group_of(a);
    uint32_t n = atomic_load(&g->n);
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load(&g->member[i]) >> 32 == worker) {
            next_generation(g);
            return;
        }
}

bool sl_group_form(struct sl_arena *a, const struct sl_group_member *members, uint32_t n)
{
    struct group *g = group_of(a);
    if (is_same(g, members, n) || (n == 0 && atomic_load(&g->formed) == 0))
        return false;
    uint64_t generation = next_generation(g);
    atomic_store(&g->n, n);
    for (uint32_t i = 0; i < n; i++)
        atomic_store(&g->member[i], pack(&members[i]));
    atomic_store_explicit(&g->formed, generation, memory_order_release);
    sl_event_signal(&a->h->progress); // the cells are other members' turn
    return true;
}

bool sl_group_read(const struct sl_arena *a, uint32_t worker, struct sl_group_view *out)
{
    const struct group *g = group_of(a);
    uint64_t generation = atomic_load_explicit(&g->formed, memory_order_acquire);
    *out = (struct sl_group_view){.generation = generation, .n = atomic_load(&g->n)};
    out->rank = out->n;
    for (uint32_t i = 0; i < out->n && i < SL_GROUP_MAX; i++) {
        uint64_t member = atomic_load(&g->member[i]);
        if (i == 0)
            out->first = (uint32_t)member;
        if (member >> 32 == worker)
            out->rank = i;
    }
    // The list is rewritten only after the word has moved on.
    return sl_group_is_current(a, generation);
}

bool sl_group_is_turn(const struct sl_arena *a, const struct sl_group_view *view, uint32_t cell)
{
    return view->rank < view->n && cell % a->h->spec.batches_per_update % view->n == view->rank;
}

// --- the name ---

void sl_group_name(struct sl_arena *a, const struct sl_group_view *view,
                   const uint8_t name[SL_GROUP_NAME_BYTES])
{
    struct seat *s = seat_of(a, view->first);
    uint64_t words[SL_GROUP_NAME_BYTES / sizeof(uint64_t)];
    memcpy(words, name, sizeof words);
    atomic_store(&s->named, 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        atomic_store(&s->name[i], words[i]);
    atomic_store_explicit(&s->named, view->generation, memory_order_release);
    sl_event_signal(&a->h->progress);
}

int sl_group_read_name(const struct sl_arena *a, const struct sl_group_view *view,
                       uint8_t name[SL_GROUP_NAME_BYTES])
{
    const struct seat *s = seat_of(a, view->first);
    uint64_t words[SL_GROUP_NAME_BYTES / sizeof(uint64_t)];
    if (atomic_load_explicit(&s->named, memory_order_acquire) != view->generation)
        return SL_EAGAIN;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        words[i] = atomic_load(&s->name[i]);
    if (atomic_load(&s->named) != view->generation)
        return SL_EAGAIN;
    memcpy(name, words, sizeof words);
    return SL_OK;
}
