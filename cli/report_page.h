// report_page.h - a run's account as HTML that is read without a script: pictures, then words.
#ifndef SL_CLI_REPORT_PAGE_H
#define SL_CLI_REPORT_PAGE_H

#include "common/schema/report.h"
#include "common/text/text.h"

// Elements for sl_page_standalone(). run: sluice.describe/1 (run_reader.h), and its report.
void sl_report_page_write(struct sl_text *t, const cJSON *run, const struct sl_read_report *r);

#endif
