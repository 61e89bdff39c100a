/*
 * A worker attaches to an arena whose header is the input: a spec and a few changes of what the
 * broker wrote. What is taken leads nowhere out of the segment.
 *
 *     spec (struct sl_arena_spec), then any number of {u16 word of the header, u64 value}
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "tests/fuzz/fuzz.h"

enum { SEGMENT_MAX = 4 << 20 };

// What workers derive from the header before they look at anything else.
static void check_places(const struct sl_arena *a)
{
    const struct sl_arena_spec *spec = &a->h->spec;
    for (int i = 0; i < SL_REGION_COUNT; i++) {
        const struct sl_region *r = &a->h->region[i];
        FUZZ_WANT(r->offset <= a->bytes && r->bytes <= a->bytes - r->offset);
        fuzz_touch(sl_arena_region(a, (enum sl_region_id)i), r->bytes);
    }
    fuzz_touch(sl_arena_order(a, 1), spec->n_train * sizeof(uint32_t));
    for (uint32_t b = 0; b < spec->act_banks; b++)
        fuzz_touch(sl_arena_acts(a, b), spec->act_rows * spec->act_width * sizeof(float));
    fuzz_touch(sl_arena_jumping(a), spec->act_rows * spec->jumping_width * sizeof(float));
    fuzz_touch(sl_arena_predictions(a), spec->predict_rows * spec->predict_words * 4);
    fuzz_touch(sl_param_store_best(a), spec->n_params * sizeof(float));
    fuzz_touch(sl_param_store_params(a, 1), spec->n_params * sizeof(float));
    if (spec->n_state)
        fuzz_touch(sl_param_store_state(a, 1, spec->n_state - 1), spec->n_params * sizeof(float));
    fuzz_touch(spec->async ? sl_param_store_device_gradient(a, spec->n_devices - 1)
                           : sl_param_store_gradient(a, spec->batches_per_update - 1),
               spec->n_params * sizeof(float));
}

static void damage(char *header, const uint8_t *data, size_t n)
{
    for (; n >= 10; data += 10, n -= 10) {
        uint16_t word;
        memcpy(&word, data, sizeof word);
        memcpy(header + word % (sizeof(struct sl_arena_header) / 8) * 8, data + 2, 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_arena_spec spec;
    struct sl_arena arena;
    if (n < sizeof spec)
        return 0;
    memcpy(&spec, data, sizeof spec);
    // Of the first bytes of a header that is as the broker makes it, and of whatever else.
    struct sl_arena_header *header = calloc(1, sizeof *header);
    sl_arena_layout(&spec, header);
    damage((char *)header, data + sizeof spec, n - sizeof spec);
    uint64_t bytes = header->total_bytes < SEGMENT_MAX ? header->total_bytes : SEGMENT_MAX;
    int fd = sl_arena_memfd();
    FUZZ_WANT(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    size_t head = bytes < sizeof *header ? (size_t)bytes : sizeof *header;
    FUZZ_WANT(pwrite(fd, header, head, 0) == (ssize_t)head);
    if (sl_arena_attach(fd, &arena) == SL_OK) {
        check_places(&arena);
        sl_arena_detach(&arena);
    }
    close(fd);
    free(header);
    return 0;
}
