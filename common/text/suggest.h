/*
 * suggest.h - "did you mean".
 */
#ifndef SL_TEXT_SUGGEST_H
#define SL_TEXT_SUGGEST_H

#include <stddef.h>

// Number of insertions, deletions, replacements and swaps of neighbours from a to b.
unsigned sl_suggest_distance(const char *a, const char *b);

/*
 * The closest candidate (borrowed), or NULL when none is close enough to be meant: up to a third
 * of the longer word may differ, or the word begins a single candidate.
 */
const char *sl_suggest_closest(const char *word, const char *const *candidates, size_t n);

#endif
