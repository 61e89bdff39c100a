#include "common/schema/words.h"

#include <stddef.h>
#include <string.h>

#define WORD(symbol, word, ...) word,
const char *const sl_job_state_words[] = {SL_JOB_STATES(WORD) NULL};
const char *const sl_bottleneck_words[] = {SL_BOTTLENECKS(WORD) NULL};

static bool is_of(const char *word, enum sl_job_state_kind kind)
{
#define KIND(symbol, word, kind) SL_JOB_STATE_##kind,
    static const enum sl_job_state_kind kinds[] = {SL_JOB_STATES(KIND)};
    for (size_t i = 0; sl_job_state_words[i]; i++)
        if (strcmp(word, sl_job_state_words[i]) == 0)
            return kinds[i] == kind;
    return false;
}

bool sl_job_state_works(const char *word)
{
    return is_of(word, SL_JOB_STATE_WORKS);
}

bool sl_job_state_is_over(const char *word)
{
    return is_of(word, SL_JOB_STATE_OVER);
}

bool sl_job_state_has_ended(const char *word)
{
    return is_of(word, SL_JOB_STATE_OVER) || is_of(word, SL_JOB_STATE_BROKEN);
}
