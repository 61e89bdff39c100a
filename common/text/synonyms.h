/*
 * synonyms.h - the words that users of other tools write, and what they are called here.
 *
 * One table for keys of the job file, their values and commands: whoever finds a word that is not
 * known asks it before looking for a word that is spelt alike (suggest.h). Case, '_', '-' and
 * blanks do not count: num_layers, numLayers and num-layers are one word.
 */
#ifndef SL_TEXT_SYNONYMS_H
#define SL_TEXT_SYNONYMS_H

#include <stddef.h>

enum sl_synonym_of { SL_SYNONYM_KEY, SL_SYNONYM_VALUE, SL_SYNONYM_COMMAND };

struct sl_synonym {
    enum sl_synonym_of of;
    const char *key;   // VALUE: the key's path
    const char *words; // separated by blanks; '#' stands for a whole number
    // A key's path, a value as JSON ('#': the number of the word), a command with what follows it.
    // NULL: there is none, and `why` says what to do.
    const char *means;
    const char *why; // where means is NULL; or sl_synonym_gpu, or what a value goes with; else NULL
};

extern const char sl_synonym_gpu[]; // `why` of what only a machine with GPUs can do

extern const struct sl_synonym sl_synonyms[];
extern const size_t sl_n_synonyms;

enum { SL_SYNONYM_BYTES = 64 };

/*
 * The row of a word, or NULL. `key` is that of a VALUE, else not looked at. *means gets what the
 * row means for this word, "" where it means nothing.
 */
const struct sl_synonym *sl_synonym_find(enum sl_synonym_of of, const char *key, const char *word,
                                         char means[SL_SYNONYM_BYTES]);

#endif
