/*
 * links.h - how fast two nodes talk: round trips and bandwidth.
 *
 * One of the two leads: it asks for exchanges of a size, as many as take a quarter of a second by
 * the first one, and takes the middle one. A size whose first exchange would take longer than
 * SL_LINK_MOST_S by the rate of the one before it is left out.
 */
#ifndef SL_NODES_LINKS_H
#define SL_NODES_LINKS_H

#include "nodes/world.h"

// X(NAME, key, heading, bytes there, bytes back, most exchanges)
#define SL_LINK_SIZES(X)                                                                           \
    X(TRIP_8, "trip_8_b_s", "trip 8 B", 8, 8, 100)                                                 \
    X(TRIP_32K, "trip_32_kib_s", "trip 32 KiB", 32 << 10, 32 << 10, 50)                            \
    X(RATE_1M, "rate_1_mib_bytes_per_s", "rate 1 MiB", 1 << 20, 8, 20)                             \
    X(RATE_64M, "rate_64_mib_bytes_per_s", "rate 64 MiB", 64 << 20, 8, 3)

enum sl_link_size {
#define SL_LINK_ENUM(name, key, heading, there, back, most) SL_LINK_##name,
    SL_LINK_SIZES(SL_LINK_ENUM)
#undef SL_LINK_ENUM
        SL_LINK_SIZES_COUNT,
};

enum { SL_LINK_MOST_S = 5, SL_LINK_BOUND_S = 30 };

struct sl_link {
    uint32_t a, b; // a led
    // Of trips the seconds there and back, of rates bytes a second there; 0: left out.
    double figure[SL_LINK_SIZES_COUNT];
};

extern const char *const sl_link_keys[], *const sl_link_headings[];
static inline bool sl_link_is_rate(enum sl_link_size size)
{
    return size >= SL_LINK_RATE_1M;
}

// What messages over a link take, one after the other. 0: not known.
struct sl_link_speed {
    double trip_s;      // of 8 bytes there and back
    double bytes_per_s; // of messages of a MiB
};
// The least and the longest of n links: of those that were measured.
struct sl_link_speed sl_link_slowest(const struct sl_link *link, uint32_t n);

// Both ends at once; errors of waiting (world.h), SL_ENOMEM, SL_EPROTO.
int sl_link_lead(struct sl_world *w, uint32_t with, struct sl_link *out);
int sl_link_follow(struct sl_world *w, uint32_t with);

#endif
