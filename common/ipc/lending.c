#include "common/ipc/lending.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

void sl_lending_init(struct sl_lending *l, struct sl_arena *arena, enum sl_lent_kind kind,
                     uint32_t owner, const struct sl_device *device, uint64_t element_bytes,
                     const char *what)
{
    *l = (struct sl_lending){.arena = arena,
                             .kind = kind,
                             .owner = owner,
                             .device = device,
                             .element_bytes = element_bytes,
                             .what = what};
}

static void give_back(struct sl_lending *l)
{
    if (l->p) {
        l->device->memory.free(l->p, l->bytes);
        l->device->trim();
    }
    l->at = (struct sl_lending_layout){0};
    l->p = NULL;
    l->bytes = 0;
    l->room = l->elements = l->plan = 0;
    l->is_lent = l->withdrawn = false;
}

void sl_lending_fini(struct sl_lending *l)
{
    if (l->is_lent)
        sl_lent_leave(l->arena, l->kind, l->owner);
    give_back(l);
}

uint64_t sl_lending_elements(const struct sl_lending *l)
{
    return l->at.n_held * l->elements;
}

// --- how parts lie -------------------------------------------------------------------------------

static uint64_t whole_runs(uint64_t elements, uint32_t shift)
{
    return elements >> shift << shift;
}

bool sl_lending_layout(const struct sl_lending *l, const struct sl_lent_plan *plan,
                       uint64_t elements, struct sl_lending_layout *out)
{
    const uint32_t held = plan->n_parts ? plan->held[l->owner] : 0;
    const uint32_t n_held = (uint32_t)__builtin_popcount(held);
    *out = (struct sl_lending_layout){0};
    if (n_held == 0 || elements <= plan->first)
        return false;
    const uint64_t each = SL_MIN(plan->part_elements, (elements - plan->first) / n_held);
    if (whole_runs(each, plan->shift) == 0)
        return false;
    *out = (struct sl_lending_layout){.held = held,
                                      .n_held = n_held,
                                      .first = plan->first,
                                      .n_parts = plan->n_parts,
                                      .shift = plan->shift,
                                      .wanted = whole_runs(each, plan->shift)};
    return true;
}

static bool lies_alike(const struct sl_lending_layout *a, const struct sl_lending_layout *b)
{
    return a->held == b->held && a->first == b->first && a->n_parts == b->n_parts &&
           a->shift == b->shift && a->wanted == b->wanted;
}

bool sl_lending_may_change(struct sl_lending *l, const struct sl_lending_layout *to)
{
    if (!l->p || (to && lies_alike(&l->at, to)))
        return true;
    if (l->is_lent && !l->withdrawn) {
        sl_lent_withdraw(l->arena, l->kind, l->owner);
        l->withdrawn = true;
        SL_FAILPOINT(LENT_WITHDRAWN);
    }
    if (l->is_lent && sl_lent_is_read(l->arena, l->kind, l->owner))
        return false;
    give_back(l);
    return true;
}

bool sl_lending_allocate(struct sl_lending *l, const struct sl_lending_layout *layout)
{
    const uint64_t unit = layout->n_held * l->element_bytes;
    uint64_t available = 0, total;
    if (l->device->space(&available, &total) < 0)
        return false;
    // An eighth of what is left stays for others.
    uint64_t room = SL_MIN(layout->wanted, available / 8 * 7 / unit);
    while ((room = whole_runs(room, layout->shift)) > 0 &&
           !(l->p = l->device->memory.alloc(room * unit)))
        room /= 2;
    if (room < layout->wanted)
        sl_log_warn("%s: there is memory for %llu of the %llu elements of each part that this "
                    "device holds for all; the others are read in the machine's memory",
                    l->what, (unsigned long long)room, (unsigned long long)layout->wanted);
    if (!l->p)
        return false;
    l->at = *layout;
    l->room = room;
    l->bytes = room * unit;
    return true;
}

// --- lending -------------------------------------------------------------------------------------

// From now on others may read what is there of it, by the plan that there is.
static void lend(struct sl_lending *l, uint64_t plan, uint64_t order)
{
    if (l->elements == 0 || (l->plan == plan && !l->withdrawn))
        return;
    struct sl_lent_offer offer = {
        .plan = plan,
        .order = order,
        .room = l->room,
        .elements = l->elements,
    };
    l->plan = plan;
    l->withdrawn = false;
    if (l->device->share(l->p, &offer.share) < 0 || sl_lent_live(l->arena, l->kind, l->owner) < 0) {
        sl_log_warn("%s: what this device holds of it is lent to nobody: %s", l->what,
                    sl_error_message());
        return;
    }
    l->is_lent = true;
    sl_lent_offer(l->arena, l->kind, l->owner, &offer);
    SL_FAILPOINT(LENT_OFFERED);
}

int sl_lending_fill(struct sl_lending *l, uint64_t plan, uint64_t order,
                    const struct sl_lending_source *source)
{
    lend(l, plan, order); // what has stayed
    while (l->elements < l->room && source->goes_on(source->ctx)) {
        const uint64_t n = SL_MIN(source->piece, l->room - l->elements);
        uint64_t to = l->elements;
        for (uint32_t i = 0; i < l->at.n_parts; i++) {
            if (!(l->at.held >> i & 1))
                continue;
            SL_TRY(source->load(source->ctx, i, l->elements, n, to));
            to += l->room;
        }
        l->elements += n;
        if (l->is_lent)
            sl_lent_grow(l->arena, l->kind, l->owner, l->elements);
        lend(l, plan, order);
        SL_FAILPOINT(LENT_FILLING);
    }
    return SL_OK;
}

bool sl_lending_part(const struct sl_lending *l, const struct sl_borrowed *others,
                     const struct sl_lent_plan *plan, uint32_t p, struct sl_borrowed_part *out)
{
    if (!(l->at.held >> p & 1))
        return sl_borrowed_part(others, plan, p, out);
    const uint32_t before = l->at.held & (((uint32_t)1 << p) - 1);
    *out = (struct sl_borrowed_part){.lender = l->owner,
                                     .n_held = l->at.n_held,
                                     .memory = l->p,
                                     .number = (uint32_t)__builtin_popcount(before),
                                     .room = l->room,
                                     .elements = l->elements};
    return l->elements > 0;
}
