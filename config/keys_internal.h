/*
 * keys_internal.h - the table of keys, as every file of config/ reads it.
 *
 * A key is a row: its JSON path, what values it takes, its default, what it means, and where the
 * value lives in struct sl_config. Objects and lists of objects have rows too (for their
 * description), followed by the rows of what is in them. "devices[].kind" is a key of an entry of
 * the list "devices"; its offset counts from the beginning of that entry's struct.
 */
#ifndef SL_CONFIG_KEYS_INTERNAL_H
#define SL_CONFIG_KEYS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_config;

enum { SL_KEY_PATH_BYTES = 128 };

enum sl_key_type {
    SL_KEY_OBJECT,  // holds other keys
    SL_KEY_NOTE,    // text that sluice does not read
    SL_KEY_STRING,  // char[]
    SL_KEY_BOOL,    // bool
    SL_KEY_INTEGER, // uint32_t or uint64_t
    SL_KEY_NUMBER,  // double
    SL_KEY_WORD,    // an enum: the index into `words`
    SL_KEY_SIZE,    // uint64_t of bytes: a whole number, or "512MiB"
    SL_KEY_FANOUT,  // int64_t[] of fanouts and, at `companion`, their number (uint32_t); by
                    // relation, at `names` (struct sl_fanout_names)
    SL_KEY_PATHS,   // struct sl_metapaths
    SL_KEY_CORES,   // uint16_t[] of core numbers and, at `companion`, their number (uint32_t)
    SL_KEY_NUMBERS, // double[] and, at `companion`, their number (uint32_t); or one of `choices`
    SL_KEY_LIST,    // structs of entry_bytes and, at `companion`, their number (uint32_t)
};

/*
 * Whether a run may go on with another value of a key. Every row but those of objects says so: the
 * result are the parameters, the samples, and what validation found of each epoch.
 */
enum sl_key_change {
    SL_CHANGE_UNSAID,  // counts as refused, and a unit test refuses the row
    SL_CHANGE_REFUSED, // the result depends on it: another value is another job
    SL_CHANGE_FREE,    // the result is the same to the last bit
    // Allowed, although a job that had this value from its beginning may end with another result:
    // how far to train, or what may be gone (a GPU, the file of the first parameters).
    SL_CHANGE_ONWARD,
};

struct sl_key {
    const char *path;
    enum sl_key_type type;
    enum sl_key_change change; // of a list: as a whole
    bool required;
    bool of_machine; // says where the job runs, not what it is: nothing to who asks for its model
    uint32_t offset, bytes; // of the field; bytes 0: there is none
    uint32_t companion;     // offset of the field beside it, see the types

    uint32_t names; // ... of the struct with those that are named

    double min, max;           // of numbers, bytes of a size, length of a list
    bool above_min, below_max; // the bound itself is not allowed

    const char *const *words; // SL_KEY_WORD: NULL-terminated, in the order of the enum
    const char *word;         // a word that may stand in the value's place: "auto", "full"
    uint32_t word_flag;       // offset of the bool that says so; 0: the value is then 0
    const char *also_word;    // ... another such word, which sets word_flag and also_flag
    uint32_t also_flag;

    // SL_KEY_NUMBERS: words that may stand in the list's place, in the order of the enum at
    // `choice`; a list is the value behind the last of them.
    const char *const *choices;
    uint32_t choice;

    uint32_t entry_bytes; // SL_KEY_LIST: of the struct that an entry fills
    const char *entries;  // ... what messages call them: "devices"
    const char *entry_eg; // ... one of them as JSON text

    const char *fallback;      // default as JSON text; NULL: none
    const char *fallback_note; // a default that depends on other keys, in words
    // ... and the one in its place where that key, whose row comes before, has that word.
    const char *beside_key, *beside_word, *beside_fallback;

    // The key has a meaning only where only_key has the word only_word (or one of "a or b"), with
    // only_not any other word, with only_of a word for whose index it returns true. The key of a
    // list's entry names one of the same entry: "devices[].kind".
    const char *only_key, *only_word;
    bool only_not;
    bool (*only_of)(unsigned word);
    bool not_external; // nor has it one in jobs of external trainers
    // The key is required where needed_key has the word needed_word.
    const char *needed_key, *needed_word;

    const char *doc; // one sentence, for people: what it is
};

extern const struct sl_key sl_keys[];
extern const size_t sl_n_keys;

// The schema's word for `change`: "no", "free", "onward"; NULL where a row does not say.
const char *sl_key_change_word(const struct sl_key *key);

// The row of a path ("model.layers", "devices[].cores"); NULL when there is none.
const struct sl_key *sl_key_find(const char *path);

// The name of a key inside its object: "layers" of "model.layers".
const char *sl_key_leaf(const struct sl_key *key);

// The object that holds a key: "model" of "model.layers", "" at the top, "devices[]" for the keys
// of a list's entries.
void sl_key_parent(const struct sl_key *key, char out[SL_KEY_PATH_BYTES]);

// Whether the key stands directly in the object `parent`.
bool sl_key_is_in(const struct sl_key *key, const char *parent);

// Whether the word is one of "a or b or c".
bool sl_word_is_among(const char *word, const char *words);

// Whether a key that has an only_key has a meaning where only_key has that word (by index).
bool sl_key_goes_with(const struct sl_key *key, unsigned word);

// The row that says why the key has no meaning beside the values in `base`, from which all offsets
// count: its own, or that of its only_key where that key has none itself. NULL: it has a meaning.
const struct sl_key *sl_key_misfit(const struct sl_key *key, const void *base);

bool sl_key_applies(const struct sl_key *key, const void *base);

// Whether the key has to be given, beside the other values in `base`.
bool sl_key_is_needed(const struct sl_key *key, const void *base);

// The default as JSON text, beside the other values in `base`; NULL: none.
const char *sl_key_fallback(const struct sl_key *key, const void *base);

// The default in words: `"none"; with model.kind "gin" "batch"`. "": there is none.
enum { SL_KEY_DEFAULT_BYTES = 256 };
char *sl_key_default(const struct sl_key *key, char out[SL_KEY_DEFAULT_BYTES]);

// The word that the value of a key (of type SL_KEY_WORD) has in `base`.
const char *sl_key_word(const struct sl_key *key, const void *base);

/*
 * Advice on the unknown `name` in the object `parent` ("" is the top): "did you mean model.hidden?"
 * or, when no name is similar, the keys of that object. Written to out, cut at `bytes`.
 */
void sl_key_suggest(const char *parent, const char *name, char *out, size_t bytes);

// The words of `key` beside which `guest`, whose only_key it is, has a meaning; NULL: all words. As
// text: "\"a\", \"b\" or \"c\"".
void sl_key_words(const struct sl_key *key, const struct sl_key *guest, char *out, size_t bytes);

// The values that a key takes, in words: "a whole number from 1 to 8".
void sl_key_wanted(const struct sl_key *key, char *out, size_t bytes);

#endif
