#include "cli/output.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/text/json.h"

const char *const sl_output_names[] = {"text", "json", NULL};
// clang-format off
const struct sl_option sl_output_option[] = {
    {.name = "output", .letter = 'o', .type = SL_OPTION_CHOICE, .choices = sl_output_names,
     .help = "lines for people, or JSON"},
    {0},
};
// clang-format on

static int print_tree(cJSON *tree, char *text, const char *what)
{
    cJSON_Delete(tree);
    if (!text)
        return sl_fail(SL_ENOMEM, "%s: no memory", what);
    printf("%s\n", text);
    free(text);
    return SL_OK;
}

int sl_output_json_line(cJSON *tree, const char *what)
{
    return print_tree(tree, sl_json_line(tree), what);
}

int sl_output_json_pages(cJSON *tree, const char *what)
{
    return print_tree(tree, sl_json_pages(tree), what);
}

void sl_answer_print(enum sl_output output, const char *job, const char *id, const char *state,
                     const int *exit_status, const char *message)
{
    if (output == SL_OUTPUT_TEXT) {
        printf("%s: %s\n", job, message);
        fflush(stdout);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.answer/1");
    sl_json_add_text(o, "job", job);
    sl_json_add_text(o, "id", id);
    cJSON_AddTrueToObject(o, "ok");
    sl_json_add_text(o, "state", state);
    sl_json_add_number(o, "exit_status", exit_status ? *exit_status : NAN);
    cJSON_AddStringToObject(o, "message", message);
    sl_output_json_line(o, "an answer");
    fflush(stdout);
}

bool sl_output_is_closed(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO};
    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR);
}

unsigned sl_output_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}
