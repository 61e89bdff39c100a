#include "common/base/sampler_kind.h"

#include <stddef.h>

#define WORD(extra, constant, word, kernel, flags)  word,
#define FLAGS(extra, constant, word, kernel, flags) flags,

const char *const sl_sampler_words[SL_SAMPLER_KINDS + 1] = {SL_SAMPLER_LIST(WORD, ) NULL};
const unsigned sl_sampler_flags[SL_SAMPLER_KINDS] = {SL_SAMPLER_LIST(FLAGS, )};
