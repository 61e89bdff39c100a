#include "broker/http/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static struct sl_feed_message *message(const struct sl_feed *f, uint64_t number)
{
    return &f->ring[number % SL_FEED_MESSAGES];
}

int sl_feed_init(struct sl_feed *f)
{
    memset(f, 0, sizeof *f);
    f->ring = calloc(SL_FEED_MESSAGES, sizeof *f->ring);
    if (!f->ring)
        return sl_fail(SL_ENOMEM, "the page: no memory for %d messages", SL_FEED_MESSAGES);
    return SL_OK;
}

static void drop_oldest(struct sl_feed *f)
{
    struct sl_feed_message *m = message(f, f->tail++);
    f->bytes -= m->n;
    free(m->text);
    m->text = NULL;
}

void sl_feed_fini(struct sl_feed *f)
{
    if (!f->ring)
        return;
    while (f->tail != f->head)
        drop_oldest(f);
    free(f->ring);
    memset(f, 0, sizeof *f);
}

void sl_feed_push(struct sl_feed *f, const char *key, const char *kind, const char *json)
{
    size_t n = strlen("event: \ndata: \n\n") + strlen(kind) + strlen(json);
    if (n > SL_FEED_BYTES_MAX)
        return;
    char *text = malloc(n + 1);
    if (!text)
        return;
    snprintf(text, n + 1, "event: %s\ndata: %s\n\n", kind, json);
    // A line break between JSON's tokens would end the event.
    for (char *c = strstr(text, "data: "); c < text + n - 2; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    while (f->head - f->tail == SL_FEED_MESSAGES || f->bytes + n > SL_FEED_BYTES_MAX)
        drop_oldest(f);
    struct sl_feed_message *m = message(f, f->head++);
    m->text = text;
    m->n = n;
    snprintf(m->key, sizeof m->key, "%s", key);
    f->bytes += n;
}

void sl_feed_join(const struct sl_feed *f, const char *key, struct sl_feed_place *place)
{
    memset(place, 0, sizeof *place);
    place->at = f->head;
    snprintf(place->key, sizeof place->key, "%s", key);
}

bool sl_feed_ready(const struct sl_feed *f, struct sl_feed_place *place)
{
    if (place->at < f->tail)
        return true;
    for (; place->at < f->head; place->at++) {
        const char *key = message(f, place->at)->key;
        if (!*place->key || !*key || strcmp(key, place->key) == 0)
            return true;
    }
    return false;
}

ssize_t sl_feed_read(const struct sl_feed *f, struct sl_feed_place *place, char *out, size_t max)
{
    size_t n = 0;
    while (n < max && sl_feed_ready(f, place)) {
        if (place->at < f->tail)
            return n ? (ssize_t)n : -1;
        const struct sl_feed_message *m = message(f, place->at);
        size_t part = SL_MIN(m->n - place->offset, max - n);
        memcpy(out + n, m->text + place->offset, part);
        n += part;
        place->offset += part;
        if (place->offset == m->n) {
            place->at++;
            place->offset = 0;
        }
    }
    return (ssize_t)n;
}
