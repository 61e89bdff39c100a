/*
 * view.h - draws a model on a screen of any size.
 */
#ifndef SL_CLI_TOP_VIEW_H
#define SL_CLI_TOP_VIEW_H

#include "cli/top/model.h"
#include "cli/top/screen.h"

enum { SL_TOP_SMALL_COLUMNS = 60, SL_TOP_SMALL_ROWS = 15 }; // below: words instead of pictures

// Overwrites the whole screen. The model's scroll is brought into the range of what there is.
void sl_top_draw(struct sl_top_model *m, struct sl_screen *screen);

#endif
