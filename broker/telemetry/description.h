// description.h - the description of a job, for clients that come later: schema
// sluice.describe/1 (README.md).
#ifndef SL_BROKER_TELEMETRY_DESCRIPTION_H
#define SL_BROKER_TELEMETRY_DESCRIPTION_H

#include "broker/telemetry/live.h"

void sl_description_write(const struct sl_job_view *job, struct sl_live *live,
                          struct sl_json_writer *w);

#endif
