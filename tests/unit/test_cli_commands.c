// The table of commands as the program has it: what other tools call them leads to them.
#include "cli/command.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/synonyms.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

#include <sys/resource.h>

#define ADDRESS(name) &sl_command_##name,
static const struct sl_command *const commands[] = {SL_COMMANDS(ADDRESS)};

static int say(const char *word)
{
    char *argv[] = {(char *)"sluice", (char *)word, NULL};
    return sl_dispatch(commands, SL_COUNT_OF(commands), 2, argv);
}

LOOP_TEST(a_word_of_another_tool_leads_to_a_command, 0, (int)sl_n_synonyms)
{
    ck_assert_int_eq(say("train"), SL_EINVAL);
    ck_assert_str_eq(sl_error_message(), "unknown command 'train': did you mean 'run'?");
    const struct sl_synonym *s = &sl_synonyms[_i];
    char advice[128], word[64];
    for (const char *at = s->words; s->of == SL_SYNONYM_COMMAND && *at; at += *at == ' ') {
        int n = (int)strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", n, at);
        snprintf(advice, sizeof advice, "unknown command '%s': did you mean '%s'?", word, s->means);
        ck_assert_int_eq(say(word), SL_EINVAL);
        ck_assert_str_eq(sl_error_message(), advice);
        at += n;
    }
}

TEST(an_option_that_is_a_key_leads_to_set)
{
    char *argv[] = {(char *)"sluice", (char *)"run", (char *)"job.json", (char *)"--lr=0.1", NULL};
    ck_assert_int_eq(sl_dispatch(commands, SL_COUNT_OF(commands), 4, argv), SL_EINVAL);
    ck_assert_str_eq(sl_error_message(),
                     "run: unknown option --lr: did you mean --set optimizer.lr=VALUE?");
    argv[1] = (char *)"predict"; // whose --set is something else
    ck_assert_int_eq(sl_dispatch(commands, SL_COUNT_OF(commands), 4, argv), SL_EINVAL);
    ck_assert_ptr_null(strstr(sl_error_message(), "optimizer"));
}

// ---- what is refused before anything is done
// -----------------------------------------------------

static const struct {
    const struct sl_command *command;
    const char *words[8], *message;
} refused[] = {
    {&sl_command_scale, {"scale", "job", "more"}, "scale: found 'more', wanted samplers=N or tra"},
    {&sl_command_scale, {"scale", "job", "samplers=x"}, "'samplers=x', wanted a whole number from"},
    {&sl_command_scale, {"scale", "job", "trainers=0"}, "wanted at least 1: nobody would train"},
    {&sl_command_scale, {"scale", "job", "samplers=1", "samplers=2"}, "samplers is given twice"},
    {&sl_command_scale, {"scale", "samplers=2", "job"}, "mean 'sluice scale job samplers=2'"},
    {&sl_command_scale, {"scale", "job"}, "scale: found no split, wanted samplers=N"},
    {&sl_command_generate, {"generate"}, "generate: no kind given: 'sluice generate --help'"},
    {&sl_command_generate, {"generate", "--seed", "2"}, "option '--seed' before the kind: wanted"},
    {&sl_command_predict,
     {"predict", "run", "--nodes", "1", "--set", "test", "--out", "x"},
     "wanted one of them"},
};

LOOP_TEST(words_that_can_not_be_are_refused, 0, SL_COUNT_OF(refused))
{
    ck_assert_int_eq(run_words(refused[_i].command, 8, refused[_i].words), SL_EINVAL);
    assert_message_has(refused[_i].message);
}

TEST(of_several_jobs_each_error_is_told)
{
    char said[4096] = "";
    setenv("SLUICE_RUNTIME_DIR", in_dir("nowhere"), 1);
    ck_assert_ptr_nonnull(freopen(in_dir("said"), "w", stderr));
    ck_assert_int_eq(RUN(sl_command_stop, "stop", "one", "two"), SL_EXIT_USAGE);
    fflush(stderr);
    FILE *f = fopen(in_dir("said"), "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(said, 1, sizeof said - 1, f), 0);
    fclose(f);
    assert_has(said, "'one'");
    assert_has(said, "'two'");
}

TEST(doctor_says_what_limits_the_processor_and_the_files)
{
    struct rlimit files;
    char *text;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = SL_MIN(files.rlim_max, (rlim_t)100);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    setenv("SLUICE_ISA", "baseline", 1);
    setenv("SLUICE_RUNTIME_DIR", in_dir("nowhere"), 1);
    capture_begin();
    ck_assert_int_ge(RUN(sl_command_doctor, "doctor"), 0);
    text = capture_end();
    assert_has(text, "SLUICE_ISA=baseline limits it");
    assert_has(text, "'ulimit -n ");
    free(text);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
