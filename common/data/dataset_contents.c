#include "common/data/dataset_contents.h"

#include <xxhash.h>

#include "common/data/dataset_fault.h"

enum { PIECES = 1024, PIECE_BYTES = 64 << 10 };

static uint64_t digest_of(const char *bytes, uint64_t n)
{
    if (n <= (uint64_t)PIECES * PIECE_BYTES)
        return XXH3_64bits(bytes, n);
    uint64_t digest = n;
    for (uint64_t i = 0; i < PIECES; i++) {
        // Multiplied in two parts: n may be near 2^64 / PIECES.
        const uint64_t room = n - PIECE_BYTES;
        const uint64_t at = room / (PIECES - 1) * i + room % (PIECES - 1) * i / (PIECES - 1);
        digest = XXH3_64bits_withSeed(bytes + at, PIECE_BYTES, digest);
    }
    return digest;
}

uint32_t sl_dataset_contents(const struct sl_dataset *ds,
                             struct sl_dataset_content out[SL_DATASET_PARTS_MAX + 1])
{
    uint32_t n = 0;
    out[n++] = (struct sl_dataset_content){.name = "metadata.json",
                                           .digest = ds->shard.count ? ds->shard.digest
                                                                     : ds->files->metadata_hash};
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        const struct sl_npy *npy = &ds->files->npy[f];
        if (npy->map && !(ds->shard.count && f == SL_FILE_FEAT))
            out[n++] =
                (struct sl_dataset_content){.name = sl_dataset_file_name((enum sl_dataset_file)f),
                                            .bytes = npy->file_bytes,
                                            .digest = digest_of(npy->map, npy->file_bytes)};
    }
    for (uint32_t t = 0; t < ds->files->n_typed; t++) {
        const struct sl_typed_file *file = &ds->files->typed[t];
        if (file->npy.map && !(ds->shard.count && t < ds->typed.n_types))
            out[n++] = (struct sl_dataset_content){
                .name = file->name,
                .bytes = file->npy.file_bytes,
                .digest = digest_of(file->npy.map, file->npy.file_bytes)};
    }
    return n;
}
