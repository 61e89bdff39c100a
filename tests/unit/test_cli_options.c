// The option parser, and how commands are found and end.
#include "common/text/options.h"

#include "cli/dispatch.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

// ---- options ------------------------------------------------------------------------------------

struct values {
    bool flag, on, given;
    const char *text, *operand, *second;
    struct sl_text_list list;
    uint64_t count, size;
    double real;
    int choice;
};

static const char *const choices[] = {"text", "json", "csv", NULL};

#define AT(kind, field) SL_OPTION_AT(kind, values, field)
#define TEXT_OPTION     .name = "text", AT(TEXT, text), .placeholder = "TEXT", .help = "any text"
// clang-format off
static const struct sl_option options[] = {
    {.name = "flag", .letter = 'f', AT(FLAG, flag), .help = "a flag"},
    {.name = "on", AT(FLAG, on), .help = "on by default"},
    {.name = "set", AT(LIST, list), .placeholder = "KEY=VALUE", .help = "many times"},
    {.name = "count", .letter = 'n', AT(UINT, count), .placeholder = "N", .min = 2, .max = 1000,
     SL_OPTION_GIVEN(values, given), .help = "a count"},
    {.name = "memory", AT(SIZE, size), .placeholder = "SIZE", .help = "a size"},
    {.name = "ratio", AT(REAL, real), .placeholder = "R", .min = -1, .max = 1, .help = "a number"},
    {.name = "output", .letter = 'o', .alias = "format", AT(CHOICE, choice), .choices = choices,
     .help = "how to print"},
    {0},
};
static const struct sl_option text_option[] = {{TEXT_OPTION}, {0}};
static const struct sl_option text_required[] = {{TEXT_OPTION, .required = true}, {0}};
// clang-format on

// The values lie behind others, and the options of the text elsewhere.
struct state {
    int before;
    struct values values;
    struct values *elsewhere;
};

static struct sl_command described(bool required)
{
    return (struct sl_command){
        .name = "try this",
        .about = "Tries options.",
        .example = "sluice try this file",
        .operands = {{"FILE", offsetof(struct state, values.operand)},
                     {"MORE", offsetof(struct state, values.second), true}},
        .options = {{options, offsetof(struct state, values)},
                    {required ? text_required : text_option, offsetof(struct state, elsewhere),
                     true}},
    };
}

static int parse_words(struct values *v, bool required, size_t n, const char *const *words)
{
    const struct sl_command c = described(required);
    struct values elsewhere = *v;
    struct state state = {.values = *v, .elsewhere = &elsewhere};
    char *argv[FIXTURE_MAX_WORDS + 1] = {(char *)"this"};
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = (char *)words[i];
    int rc = sl_options_parse(&c, &state, (int)n + 1, argv);
    ck_assert_int_eq(state.before, 0);
    *v = state.values;
    v->text = elsewhere.text;
    return rc;
}

#define PARSE(v, ...)                                                                              \
    parse_words(v, false, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                  \
                (const char *[]){__VA_ARGS__})

TEST(every_type_is_read_and_defaults_stay)
{
    struct values v = {.on = true, .count = 7, .size = 5, .text = "default"};
    ck_assert_int_eq(PARSE(&v, "file", "--ratio", "-0.5"), 0);
    ck_assert_uint_eq(v.count, 7);
    ck_assert_uint_eq(v.size, 5);
    ck_assert_str_eq(v.text, "default");
    ck_assert(v.on && !v.flag && !v.given);
    ck_assert(v.real == -0.5);
    ck_assert_int_eq(PARSE(&v, "--count", "1e2", "--memory=1.5KiB", "--flag", "--no-on",
                           "--text=a b", "file", "-o", "json", "--set", "a=1", "--set=b=2"),
                     0);
    ck_assert_uint_eq(v.count, 100);
    ck_assert_uint_eq(v.size, 1536);
    ck_assert(v.flag && !v.on && v.given);
    ck_assert_str_eq(v.text, "a b");
    ck_assert_str_eq(v.operand, "file");
    ck_assert_int_eq(v.choice, 1);
    ck_assert_uint_eq(v.list.n, 2);
    ck_assert_str_eq(v.list.items[1], "b=2");
    free(v.list.items);
}

TEST(letters_take_their_value_attached_or_next)
{
    struct values v = {0};
    ck_assert_int_eq(PARSE(&v, "-ojson", "-n", "5", "file"), 0);
    ck_assert_int_eq(v.choice, 1);
    ck_assert_uint_eq(v.count, 5);
    ck_assert_int_eq(PARSE(&v, "-fn6", "file"), 0);
    ck_assert(v.flag);
    ck_assert_uint_eq(v.count, 6);
}

TEST(two_dashes_end_the_options)
{
    struct values v = {0};
    ck_assert_int_eq(PARSE(&v, "--", "--flag", "-"), 0);
    ck_assert(!v.flag);
    ck_assert_str_eq(v.operand, "--flag");
    ck_assert_str_eq(v.second, "-");
}

static const struct {
    const char *words[3];
    int code;
    const char *message;
} wrong[] = {
    {{"file", "--coumt", "3"}, SL_EINVAL, "unknown option --coumt: did you mean --count?"},
    {{"file", "--mem=3"}, SL_EINVAL, "did you mean --memory?"},
    {{"file", "--no-text"}, SL_EINVAL, "unknown option --no-text"},
    {{"file", "--xyzzyx"}, SL_EINVAL, "'sluice try this --help' lists them"},
    {{"file", "-x"}, SL_EINVAL, "unknown option -x"},
    {{"file", "--hlep"}, SL_EINVAL, "did you mean --help?"},
    {{"file", "--count"}, SL_EINVAL, "--count needs a value: --count N"},
    {{"file", "--count", "--flag"}, SL_EINVAL, "--count needs a value"},
    {{"file", "--count", "1"}, SL_ERANGE, "--count 1 is out of range: wanted 2 to 1000"},
    {{"file", "--count", "1001"}, SL_ERANGE, "wanted 2 to 1000"},
    {{"file", "--count", "2.5"}, SL_EINVAL, "'2.5' is not a whole number"},
    {{"file", "--count", "-3"}, SL_EINVAL, "'-3' is not a whole number"},
    {{"file", "--count", ""}, SL_EINVAL, "not a whole number"},
    {{"file", "--memory", "4 apples"}, SL_EINVAL, "'4 apples' is not a size"},
    {{"file", "--ratio", "1.01"}, SL_ERANGE, "wanted -1 to 1"},
    {{"file", "--ratio", "nan"}, SL_EINVAL, "'nan' is not a number"},
    {{"file", "--output", "jsn"}, SL_EINVAL, "wanted one of text, json, csv: did you mean 'json'?"},
    {{"file", "--flag=yes"}, SL_EINVAL, "--flag takes no value"},
    {{"file", "--text", ""}, SL_EINVAL, "--text is empty"},
    {{"a", "b", "c"}, SL_EINVAL, "one word too many: 'c'"},
    {{"--flag"}, SL_EINVAL, "FILE is missing"},
};

LOOP_TEST(a_mistake_is_named, 0, SL_COUNT_OF(wrong))
{
    struct values v = {0};
    size_t n = 0;
    while (n < 3 && wrong[_i].words[n])
        n++;
    ck_assert_int_eq(parse_words(&v, false, n, wrong[_i].words), wrong[_i].code);
    assert_message_has("try this: ");
    assert_message_has(wrong[_i].message);
}

TEST(bounds_are_inclusive)
{
    struct values v = {0};
    ck_assert_int_eq(PARSE(&v, "file", "--count", "2", "--ratio=-1"), 0);
    ck_assert_int_eq(PARSE(&v, "file", "--count", "1000", "--ratio=1"), 0);
}

TEST(a_required_option_is_missed)
{
    struct values v = {.text = "default"};
    ck_assert_int_eq(parse_words(&v, true, 1, (const char *[]){"file"}), SL_EINVAL);
    assert_message_has("--text TEXT is missing");
    ck_assert_int_eq(parse_words(&v, true, 2, (const char *[]){"file", "--text=x"}), 0);
}

TEST(help_shows_options_defaults_and_the_example)
{
    struct values v = {.count = 42, .size = 1 << 20};
    capture_begin();
    // Help wins over a mistake in front of it.
    ck_assert_int_eq(PARSE(&v, "--nonsense", "--help"), SL_OPTIONS_HELP);
    char *text = capture_end();
    assert_has(text, "usage: sluice try this FILE [MORE] [OPTION]...");
    assert_has(text, "-n, --count N");
    assert_has(text, "[42]");
    assert_has(text, "[1.00 MiB]");
    assert_has(text, "--output text|json|csv");
    assert_has(text, "Example:\n  sluice try this file\n");
    free(text);
}

// ---- commands -----------------------------------------------------------------------------------

struct words {
    struct sl_text_list list;
};

static int n_begun, n_words_seen, n_ended;

static int begin(const struct sl_command *c, void *state)
{
    n_begun++;
    return SL_OK;
}

static int succeed(void *state)
{
    n_words_seen = (int)((struct words *)state)->list.n;
    return 1; // an exit status, not SL_OPTIONS_HELP
}

static int break_down(void *state)
{
    return sl_fail(SL_EFAILED, "it failed");
}

static void end(void *state)
{
    n_ended++;
}

static const struct sl_command does = {
    .name = "succeed",
    .help = "does",
    .about = "Does.",
    .rest = {"WORD", offsetof(struct words, list)},
    .bytes = sizeof(struct words),
    .init = begin,
    .run = succeed,
    .fini = end,
};
static const struct sl_command does_not = {
    .name = "fail", .help = "does not", .about = "Does not.", .run = break_down};
static const struct sl_command *const commands[] = {&does, &does_not};

#define DISPATCH(...)                                                                              \
    sl_dispatch(commands, 2, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),               \
                (char *[]){__VA_ARGS__, NULL})

TEST(a_command_gets_its_words)
{
    ck_assert_int_eq(DISPATCH("sluice", "succeed", "a", "b"), 1);
    ck_assert_int_eq(n_words_seen, 2);
    ck_assert_int_eq(DISPATCH("sluice", "succeed", "--wrong"), SL_EINVAL);
    ck_assert_int_eq(n_begun, 2);
    ck_assert_int_eq(n_ended, 2);
    ck_assert_int_eq(DISPATCH("sluice", "fail"), SL_EFAILED);
}

TEST(an_unknown_command_gets_a_suggestion)
{
    ck_assert_int_eq(DISPATCH("sluice", "suceed"), SL_EINVAL);
    assert_message_has("unknown command 'suceed': did you mean 'succeed'?");
    ck_assert_int_eq(DISPATCH("sluice", "zzz"), SL_EINVAL);
    assert_message_has("'sluice --help' lists");
    ck_assert_int_eq(DISPATCH("sluice"), SL_EINVAL);
    assert_message_has("no command given");
    ck_assert_int_eq(DISPATCH("sluice", "--seed"), SL_EINVAL);
    assert_message_has("before a command");
}

TEST(help_lists_commands)
{
    capture_begin();
    ck_assert_int_eq(DISPATCH("sluice", "--help"), 0);
    ck_assert_int_eq(DISPATCH("sluice", "--version"), 0);
    ck_assert_int_eq(DISPATCH("sluice", "help", "succeed"), 0);
    ck_assert_int_eq(n_words_seen, 0);
    char *text = capture_end();
    assert_has(text, "  succeed  does\n");
    assert_has(text, "usage: sluice succeed WORD...\n\nDoes.\n");
    assert_has(text, "sluice 0.");
    free(text);
}

TEST(words_beyond_the_operands_are_a_list)
{
    struct values v = {0};
    const struct sl_command c = {.name = "stop",
                                 .about = "Stops.",
                                 .operands = {{"FIRST", offsetof(struct values, operand)}},
                                 .rest = {"JOB", offsetof(struct values, list)}};
    char *argv[] = {"stop", "a", "b", "c", NULL};
    ck_assert_int_eq(sl_options_parse(&c, &v, 4, argv), SL_OK);
    ck_assert_str_eq(v.operand, "a");
    ck_assert_uint_eq(v.list.n, 2);
    ck_assert_str_eq(v.list.items[1], "c");
    sl_options_fini(&c, &v);
    ck_assert_uint_eq(v.list.n, 0);
    ck_assert_int_eq(sl_options_parse(&c, &v, 2, argv), SL_EINVAL);
    assert_has(sl_error_message(), "stop: JOB is missing");
}

TEST(an_older_name_of_an_option_still_works)
{
    struct values v = {0};
    ck_assert_int_eq(PARSE(&v, "file", "--format", "json"), SL_OK);
    ck_assert_int_eq(v.choice, 1);
    capture_begin();
    ck_assert_int_eq(PARSE(&v, "--help"), SL_OPTIONS_HELP);
    char *help = capture_end();
    assert_has(help, "--output text|json|csv");
    ck_assert_ptr_null(strstr(help, "format"));
    free(help);
}

TEST(a_default_beyond_the_bounds_is_not_shown)
{
    struct values v = {.count = 1001, .real = 0.5};
    capture_begin();
    ck_assert_int_eq(PARSE(&v, "--help"), SL_OPTIONS_HELP);
    char *help = capture_end();
    assert_has(help, "a count\n");
    assert_has(help, "a number [0.5]\n");
    free(help);
}

TEST(results_become_exit_statuses)
{
    ck_assert_int_eq(sl_exit_status(0), 0);
    ck_assert_int_eq(sl_exit_status(1), 1);
    ck_assert_int_eq(sl_exit_status(SL_EINVAL), 2);
    ck_assert_int_eq(sl_exit_status(SL_EFORMAT), 2);
    ck_assert_int_eq(sl_exit_status(SL_ENOENT), 2);
    ck_assert_int_eq(sl_exit_status(SL_EEXIST), 2);
    ck_assert_int_eq(sl_exit_status(SL_ERANGE), 2);
    ck_assert_int_eq(sl_exit_status(SL_EPROTO), 2);
    ck_assert_int_eq(sl_exit_status(SL_EIO), 1);
    ck_assert_int_eq(sl_exit_status(SL_EFAILED), 1);
    ck_assert_int_eq(sl_exit_status(SL_EABORTED), 130);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
