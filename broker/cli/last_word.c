#include "broker/cli/last_word.h"

#include <stdio.h>

#include "broker/cli/command.h"
#include "broker/cli/run_view.h"
#include "common/base/error.h"

int sl_last_word_tell(const Sl__Control__Finished *f, const char *job, enum sl_last_word_form form,
                      bool resumed)
{
    const char *where = *f->run_directory ? f->run_directory : NULL;
    bool has_report = *f->report_json != '\0';
    if (has_report && form == SL_LAST_WORD_JSON)
        printf("%s\n", f->report_json);
    switch (f->exit_status) {
    case SL_EXIT_OK:
        if (has_report && form == SL_LAST_WORD_SUMMARY)
            sl_run_view_summary(f->report_json, f->run_directory);
        return SL_EXIT_OK;
    case SL_EXIT_USAGE: return sl_fail(SL_EINVAL, "job '%s': %s", job, f->message);
    case SL_EXIT_INTERRUPTED:
        return sl_fail(SL_EABORTED, "job '%s': %s%s%s", job, f->message,
                       where     ? ": what was done is in "
                       : resumed ? " before it went on; the run is as it was"
                                 : " before it began; nothing was left",
                       where ? where : "");
    default:
        return sl_fail(SL_EFAILED, "job '%s': %s%s%s", job, f->message,
                       where ? ": the report and the logs are in " : "", where ? where : "");
    }
}
