/*
 * report_chart.h - what of a run is drawn with axes, as SVG in HTML: curves by epoch, what stages
 * take, epochs on a time axis. Colours are classes of broker/page/page.css.
 *
 * report: sluice.report/1, of any state; what it does not have is left out.
 */
#ifndef SL_CLI_REPORT_CHART_H
#define SL_CLI_REPORT_CHART_H

#include "common/schema/report.h"
#include "common/text/text.h"

// Loss, and what evaluations are judged by. Nothing where no epoch has either.
void sl_report_chart_curves(struct sl_text *t, const struct sl_read_report *r);

// Each stage's median and its share of the run's time.
void sl_report_chart_stages(struct sl_text *t, const struct sl_read_report *r);

// Epochs laid end to end, and what changed while they ran: splits, caches, deaths.
void sl_report_chart_epochs(struct sl_text *t, const struct sl_read_report *r);

#endif
