// What the page hears of jobs: a line is statistics, an entry or a list, as its first byte says.
// Whatever was heard, metrics and histories can be written.
#include <stdlib.h>
#include <string.h>

#include "broker/http/prometheus.h"
#include "broker/http/job_stats.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_job_stats store = {0};
    struct sl_prometheus_server server = {0};
    struct sl_text text = {0};
    char *lines = fuzz_text(data, n), *rest = lines;
    for (uint64_t second = 1; *rest && second < 32; second++) {
        char *line = fuzz_line(&rest);
        if (*line == 'e')
            sl_job_stats_on_entry(&store, line + 1);
        else if (*line == 'l')
            sl_job_stats_on_list(&store, line + 1);
        else if (*line == 'x')
            sl_job_stats_end(&store, line + 1);
        else if (*line)
            sl_job_stats_on_line(&store, *line == 's' ? "" : "7", line + 1, second * 1000000000);
    }
    sl_prometheus_write(&store, 40000000000, &server, &text);
    for (uint32_t i = 0; i < store.n_jobs; i++) {
        FUZZ_WANT(sl_job_stats_find(&store, store.jobs[i].key));
        sl_stats_history_write(store.jobs[i].history, store.jobs[i].name, &text);
    }
    sl_text_fini(&text);
    sl_job_stats_fini(&store);
    free(lines);
    return 0;
}
