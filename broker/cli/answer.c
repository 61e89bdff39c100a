#include "broker/cli/answer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cjson/cJSON.h>

struct sl_option sl_output_option(int *output)
{
    static const char *const outputs[] = {"text", "json", NULL};
    return (struct sl_option){.name = "output",
                              .letter = 'o',
                              .type = SL_OPTION_CHOICE,
                              .value = output,
                              .choices = outputs,
                              .help = "lines for people, or JSON"};
}

static cJSON *text_or_null(const char *text)
{
    return text && *text ? cJSON_CreateString(text) : cJSON_CreateNull();
}

void sl_answer_print(enum sl_output output, const struct sl_answer *a)
{
    if (output == SL_OUTPUT_TEXT) {
        printf("%s: %s\n", a->job, a->message);
        fflush(stdout);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.answer/1");
    cJSON_AddItemToObject(o, "job", text_or_null(a->job));
    cJSON_AddItemToObject(o, "id", text_or_null(a->id));
    cJSON_AddTrueToObject(o, "ok");
    cJSON_AddItemToObject(o, "state", text_or_null(a->state));
    cJSON_AddItemToObject(o, "exit_status",
                          a->exit_status ? cJSON_CreateNumber(*a->exit_status)
                                         : cJSON_CreateNull());
    cJSON_AddStringToObject(o, "message", a->message);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (text)
        printf("%s\n", text);
    free(text);
    fflush(stdout);
}

bool sl_output_is_closed(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO};
    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR);
}
