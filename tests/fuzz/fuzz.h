/*
 * fuzz.h - what a fuzz target is, and what it may use.
 *
 * A target is a file <library>_<subject>.c with LLVMFuzzerTestOneInput(): it gives the bytes to a
 * parser and holds the parser to what it promises. Whatever the bytes are, it returns; a target
 * ends the process only where the product is wrong. It keeps nothing from one input to the next.
 */
#ifndef SL_TESTS_FUZZ_FUZZ_H
#define SL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// The path of a file in memory with these bytes; file `which` (0 or 1) keeps its path for ever.
const char *fuzz_file(int which, const void *data, size_t n);

// The bytes and a zero behind them, in a block of just that size: a sanitizer sees a read beyond
// it. Owned (free).
char *fuzz_text(const uint8_t *data, size_t n);

// Cuts the next line off the text: returns it, and *rest is what follows, "" at the end.
char *fuzz_line(char **rest);

// Reads each of the bytes, so that a sanitizer sees who may not be read.
void fuzz_touch(const void *bytes, size_t n);

// Ends the process with what was wanted, and with the product's last message.
#define FUZZ_WANT(condition) ((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_failed(const char *condition, const char *file, int line);

#endif
