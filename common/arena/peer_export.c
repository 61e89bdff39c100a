#include "common/arena/peer_export.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

// What moves within the memory does so in pieces of this size, over memory of its own where a piece
// would overlap with the place that it goes to.
enum { MOVED_BYTES = 4 << 20, MOVES_MAX = SL_PEER_EXPORT_PLANES * SL_PEER_MEMORY_PARTS_MAX };

void sl_peer_export_init(struct sl_peer_export *l, struct sl_arena *arena,
                         enum sl_peer_memory_kind kind, uint32_t owner,
                         const struct sl_device *device,
                         const uint64_t plane_bytes[SL_PEER_EXPORT_PLANES], const char *what)
{
    *l = (struct sl_peer_export){
        .arena = arena, .kind = kind, .owner = owner, .device = device, .what = what};
    memcpy(l->plane_bytes, plane_bytes, sizeof l->plane_bytes);
}

static uint64_t element_bytes(const struct sl_peer_export *l)
{
    return l->plane_bytes[0] + l->plane_bytes[1];
}

uint64_t sl_peer_export_second(const struct sl_peer_export *l, uint32_t n_held, uint64_t room)
{
    return sl_align_up(n_held * room * l->plane_bytes[0], (uint64_t)sizeof(double));
}

static uint64_t bytes_of(const struct sl_peer_export *l, uint32_t n_held, uint64_t room)
{
    return sl_peer_export_second(l, n_held, room) + n_held * room * l->plane_bytes[1];
}

static void give_back(struct sl_peer_export *l)
{
    if (l->p) {
        l->device->memory.free(l->p, l->bytes);
        l->device->trim();
    }
    l->at = (struct sl_peer_export_layout){0};
    l->p = NULL;
    l->bytes = 0;
    l->room = l->elements = l->plan = 0;
    memset(l->kept, 0, sizeof l->kept);
    l->is_lent = l->withdrawn = false;
}

void sl_peer_export_fini(struct sl_peer_export *l)
{
    if (l->is_lent && !sl_peer_memory_leave(l->arena, l->kind, l->owner))
        l->p = NULL; // it goes with the process
    give_back(l);
}

uint64_t sl_peer_export_elements(const struct sl_peer_export *l)
{
    return l->at.n_held * l->elements;
}

// --- how parts lie -------------------------------------------------------------------------------

static uint64_t whole_runs(uint64_t elements, uint32_t shift)
{
    return elements >> shift << shift;
}

bool sl_peer_export_layout(const struct sl_peer_export *l, const struct sl_peer_memory_plan *plan,
                           uint64_t elements, struct sl_peer_export_layout *out)
{
    const uint32_t held = plan->n_parts ? plan->held[l->owner] : 0;
    const uint32_t n_held = (uint32_t)__builtin_popcount(held);
    *out = (struct sl_peer_export_layout){0};
    if (n_held == 0 || elements <= plan->first)
        return false;
    const uint64_t each = SL_MIN(plan->part_elements, (elements - plan->first) / n_held);
    if (whole_runs(each, plan->shift) == 0)
        return false;
    *out = (struct sl_peer_export_layout){.held = held,
                                          .n_held = n_held,
                                          .first = plan->first,
                                          .n_parts = plan->n_parts,
                                          .shift = plan->shift,
                                          .wanted = whole_runs(each, plan->shift)};
    return true;
}

static bool lies_alike(const struct sl_peer_export_layout *a, const struct sl_peer_export_layout *b)
{
    return a->held == b->held && a->first == b->first && a->n_parts == b->n_parts &&
           a->shift == b->shift && a->wanted == b->wanted;
}

// --- parts that stay -----------------------------------------------------------------------------

struct move {
    uint64_t from, to, bytes; // offsets in the memory
};

// The places of one part among those that are held.
static uint32_t number_of(uint32_t held, uint32_t part)
{
    return (uint32_t)__builtin_popcount(held & (((uint32_t)1 << part) - 1));
}

static uint64_t place_of(const struct sl_peer_export *l, uint32_t plane, uint32_t n_held,
                         uint64_t room, uint32_t number)
{
    const uint64_t begin = plane ? sl_peer_export_second(l, n_held, room) : 0;
    return begin + number * room * l->plane_bytes[plane];
}

static int move(const struct sl_peer_export *l, const struct move *m, char *between)
{
    const bool up = m->to > m->from;
    const uint64_t distance = up ? m->to - m->from : m->from - m->to;
    const uint64_t piece = SL_MAX(distance, (uint64_t)MOVED_BYTES);
    for (uint64_t done = 0; distance && done < m->bytes; done += piece) {
        const uint64_t n = SL_MIN(piece, m->bytes - done);
        const uint64_t at = up ? m->bytes - done - n : done;
        char *to = l->p + m->to + at, *from = l->p + m->from + at;
        if (distance < n) {
            SL_TRY(l->device->copy(between, from, n));
            from = between;
        }
        SL_TRY(l->device->copy(to, from, n));
        SL_FAILPOINT(LENT_MOVING);
    }
    return SL_OK;
}

/*
 * The moves are in the order of their places, before and after. So those that go down write, from
 * the lowest on, over nothing that is still to be moved; and then those that go up do, from the
 * highest.
 */
static int move_all(const struct sl_peer_export *l, const struct move *moves, uint32_t n)
{
    char *between = l->device->memory.alloc(MOVED_BYTES);
    int rc = between ? SL_OK : SL_ENOMEM;
    for (uint32_t i = 0; rc == SL_OK && i < n; i++)
        if (moves[i].to < moves[i].from)
            rc = move(l, &moves[i], between);
    for (uint32_t i = n; rc == SL_OK && i-- > 0;)
        if (moves[i].to > moves[i].from)
            rc = move(l, &moves[i], between);
    const int waited = l->device->sync();
    if (between)
        l->device->memory.free(between, MOVED_BYTES);
    return rc < 0 ? rc : waited;
}

// Elements of each part for which there is room in the memory that there is; 0: better anew.
static uint64_t room_to_stay(const struct sl_peer_export *l, const struct sl_peer_export_layout *to)
{
    const struct sl_peer_export_layout *at = &l->at;
    if (l->is_mixed || !(at->held & to->held) || at->first != to->first ||
        at->n_parts != to->n_parts || at->shift != to->shift)
        return 0;
    const uint64_t fit = l->bytes / (to->n_held * element_bytes(l));
    uint64_t room = SL_MIN(to->wanted, whole_runs(fit, to->shift));
    if (room > 0 && bytes_of(l, to->n_held, room) > l->bytes)
        room -= (uint64_t)1 << to->shift;
    const bool is_enough = room >= to->wanted / 16 * 15;
    const bool is_used = bytes_of(l, to->n_held, room) >= l->bytes / 16 * 15;
    return is_enough && is_used ? room : 0;
}

// False: nothing is kept, and what is there may have been written over.
static bool keep(struct sl_peer_export *l, const struct sl_peer_export_layout *to)
{
    const struct sl_peer_export_layout *at = &l->at;
    const uint64_t room = room_to_stay(l, to);
    const uint32_t both = at->held & to->held;
    uint64_t kept[SL_PEER_MEMORY_PARTS_MAX] = {0}, least = room;
    struct move moves[MOVES_MAX];
    uint32_t n = 0;
    if (room == 0)
        return false;
    for (uint32_t plane = 0; plane < SL_PEER_EXPORT_PLANES; plane++)
        for (uint32_t i = 0; i < to->n_parts; i++) {
            if (!(both >> i & 1))
                continue;
            kept[i] = SL_MIN(room, SL_MAX(l->elements, l->kept[i]));
            moves[n++] = (struct move){
                .from = place_of(l, plane, at->n_held, l->room, number_of(at->held, i)),
                .to = place_of(l, plane, to->n_held, room, number_of(to->held, i)),
                .bytes = kept[i] * l->plane_bytes[plane],
            };
        }
    if (move_all(l, moves, n) < 0)
        return false;
    for (uint32_t i = 0; i < to->n_parts; i++)
        if (to->held >> i & 1)
            least = SL_MIN(least, kept[i]);
    memcpy(l->kept, kept, sizeof kept);
    l->at = *to;
    l->room = room;
    l->elements = least;
    return true;
}

bool sl_peer_export_may_change(struct sl_peer_export *l, const struct sl_peer_export_layout *to)
{
    if (!l->p || (to && lies_alike(&l->at, to)))
        return true;
    if (l->is_lent && !l->withdrawn) {
        sl_peer_memory_withdraw(l->arena, l->kind, l->owner);
        l->withdrawn = true;
        SL_FAILPOINT(LENT_WITHDRAWN);
    }
    if (l->is_lent && sl_peer_memory_is_read(l->arena, l->kind, l->owner))
        return false;
    if (!to || !keep(l, to))
        give_back(l);
    return true;
}

bool sl_peer_export_allocate(struct sl_peer_export *l, const struct sl_peer_export_layout *layout)
{
    const uint64_t unit = layout->n_held * element_bytes(l);
    uint64_t available = 0, total;
    if (l->device->space(&available, &total) < 0)
        return false;
    // An eighth of what is left stays for others.
    uint64_t room = SL_MIN(layout->wanted, available / 8 * 7 / unit);
    while ((room = whole_runs(room, layout->shift)) > 0 &&
           !(l->p = l->device->memory.alloc(bytes_of(l, layout->n_held, room))))
        room /= 2;
    if (room < layout->wanted)
        sl_log_warn("%s: this device has memory for %llu of the %llu elements of each shared part; "
                    "the others are read from the machine's memory",
                    l->what, (unsigned long long)room, (unsigned long long)layout->wanted);
    if (!l->p)
        return false;
    l->at = *layout;
    l->room = room;
    l->bytes = bytes_of(l, layout->n_held, room);
    return true;
}

// --- lending -------------------------------------------------------------------------------------

// From now on others may read what is there of it, by the plan that there is.
static void lend(struct sl_peer_export *l, uint64_t plan, uint64_t order)
{
    if (l->elements == 0 || (l->plan == plan && !l->withdrawn))
        return;
    struct sl_peer_memory_offer offer = {
        .plan = plan,
        .order = order,
        .room = l->room,
        .elements = l->elements,
    };
    l->plan = plan;
    l->withdrawn = false;
    if (l->device->share(l->p, &offer.share) < 0 ||
        sl_peer_memory_live(l->arena, l->kind, l->owner) < 0) {
        sl_log_warn("%s: the part of this device is not shared with other GPUs: %s", l->what,
                    sl_error_message());
        return;
    }
    l->is_lent = true;
    sl_peer_memory_offer(l->arena, l->kind, l->owner, &offer);
    SL_FAILPOINT(LENT_OFFERED);
}

int sl_peer_export_fill(struct sl_peer_export *l, uint64_t plan, uint64_t order,
                        const struct sl_peer_export_source *source)
{
    lend(l, plan, order); // what has stayed
    while (l->elements < l->room && source->goes_on(source->ctx)) {
        const uint64_t n = SL_MIN(source->piece, l->room - l->elements);
        uint64_t to = l->elements;
        for (uint32_t i = 0; i < l->at.n_parts; i++) {
            if (!(l->at.held >> i & 1))
                continue;
            const uint64_t here = SL_MIN(SL_MAX(l->kept[i], l->elements) - l->elements, n);
            if (here < n)
                SL_TRY(source->load(source->ctx, i, l->elements + here, n - here, to + here));
            l->loaded += n - here;
            to += l->room;
        }
        l->elements += n;
        if (l->is_lent)
            sl_peer_memory_grow(l->arena, l->kind, l->owner, l->elements);
        lend(l, plan, order);
        SL_FAILPOINT(LENT_FILLING);
    }
    return SL_OK;
}

bool sl_peer_export_part(const struct sl_peer_export *l, const struct sl_peer_import *others,
                         const struct sl_peer_memory_plan *plan, uint32_t p,
                         struct sl_peer_import_part *out)
{
    if (!(l->at.held >> p & 1))
        return sl_peer_import_part(others, plan, p, out);
    *out = (struct sl_peer_import_part){.lender = l->owner,
                                        .n_held = l->at.n_held,
                                        .memory = l->p,
                                        .number = number_of(l->at.held, p),
                                        .room = l->room,
                                        .elements = l->elements};
    return l->elements > 0;
}
