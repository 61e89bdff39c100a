/*
 * feed.h - messages of the event stream, kept once for all listeners.
 *
 * A ring of the newest messages; each listener has a place in it. A listener that is so slow that
 * the message it wants is gone is cut off: memory is bounded whatever listeners do, and writing
 * never waits. Not safe for threads: the owner's lock guards all of it.
 */
#ifndef SL_BROKER_HTTP_FEED_H
#define SL_BROKER_HTTP_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SL_FEED_MESSAGES = 1024, // power of two
    SL_FEED_BYTES_MAX = 8 << 20,
    SL_FEED_KEY_BYTES = 64,
};

struct sl_feed {
    struct sl_feed_message {
        char *text; // owned; one whole event with its empty line
        size_t n;
        char key[SL_FEED_KEY_BYTES]; // of the job; "" is for everybody
    } * ring;                        // (SL_FEED_MESSAGES)
    uint64_t tail, head;             // numbers of the oldest message and of the next one
    size_t bytes;
};

struct sl_feed_place {
    uint64_t at;
    size_t offset;               // bytes of message `at` that were taken already
    char key[SL_FEED_KEY_BYTES]; // only this job's; "" = all
};

int sl_feed_init(struct sl_feed *f);
void sl_feed_fini(struct sl_feed *f); // safe on a zeroed struct

/*
 * Adds "event: <kind>\ndata: <json>\n\n"; json is one line, or is made one. What there is no memory
 * for, or is larger than the whole ring may be, is left out.
 */
void sl_feed_push(struct sl_feed *f, const char *key, const char *kind, const char *json);

// From the next message on.
void sl_feed_join(const struct sl_feed *f, const char *key, struct sl_feed_place *place);
// Up to `max` bytes. 0: nothing new; -1: it has fallen behind.
ssize_t sl_feed_read(const struct sl_feed *f, struct sl_feed_place *place, char *out, size_t max);
// Whether sl_feed_read() would return something else than 0. Passes over what is not for it.
bool sl_feed_ready(const struct sl_feed *f, struct sl_feed_place *place);

#endif
