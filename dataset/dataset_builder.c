#include "dataset/dataset_builder.h"

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/text/units.h"

const char *sl_dataset_builder_name(const struct sl_dataset_builder *m)
{
    return m->name ? m->name : m->st.name;
}

int sl_dataset_builder_run(struct sl_dataset_builder *m, void *context, int (*work)(void *context),
                           void (*summarise)(void *context, struct sl_table *t))
{
    char text[SL_UNITS_BYTES];
    uint64_t begin = sl_now_ns();
    sl_interrupt_catch();
    sl_progress_init(&m->progress, m->quiet);
    SL_TRY(sl_staging_open(m->out, m->force, &m->st));
    int rc = work(context);
    if (rc == SL_OK)
        sl_progress_end(&m->progress);
    sl_progress_clear(&m->progress);
    if (rc == SL_OK)
        rc = sl_interrupt_check();
    if (rc < 0) {
        sl_staging_abort(&m->st);
        return rc;
    }
    m->bytes = sl_staging_bytes(&m->st);
    sl_table_init(&m->summary, "l l", NULL);
    sl_table_row(&m->summary, "data set|%s", m->st.final);
    summarise(context, &m->summary);
    SL_TRY(sl_staging_commit(&m->st));
    m->seconds = (double)(sl_now_ns() - begin) * 1e-9;
    sl_table_row(&m->summary, "size|%s", sl_units_bytes(text, m->bytes));
    sl_table_row(&m->summary, "took|%s", sl_units_seconds(text, m->seconds));
    return SL_OK;
}

void sl_dataset_builder_fini(struct sl_dataset_builder *m)
{
    sl_table_fini(&m->summary);
}
