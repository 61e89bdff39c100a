// The table of commands as the program has it: what other tools call them leads to them.
#include "cli/command.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/synonyms.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

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

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
