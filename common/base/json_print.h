/*
 * json_print.h - JSON trees as text from which every number comes back as it was.
 *
 * cJSON's own printing takes 15 digits where those come within a relative 2^-52 of the number: one
 * double in six, and one whole number in five just below 2^53, then reads back as another one. What
 * is compared, hashed or gone on from after it was written cannot stand that, so nobody else prints
 * trees (scripts/lint tables).
 */
#ifndef SL_BASE_JSON_PRINT_H
#define SL_BASE_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdint.h>

enum { SL_NUMBER_TEXT_BYTES = 40 };

// The shortest decimal text that reads back as `value`, with a point whatever the locale. Whole
// numbers below 2^53 have no exponent. What is not finite is none of JSON's.
void sl_number_text(double value, char out[SL_NUMBER_TEXT_BYTES]);

// Adds a number of 64 bits, all of which are printed: a double holds 53 of them.
void sl_json_put_whole(cJSON *object, const char *key, uint64_t value);

// The tree as cJSON prints it but for its numbers (those that are not finite: null), on one line or
// indented. Owned: free(). NULL without a tree, or without memory.
char *sl_json_line(const cJSON *tree);
char *sl_json_pages(const cJSON *tree);

#endif
