/*
 * interrupt.h - Ctrl-C during a long command.
 */
#ifndef SL_BASE_INTERRUPT_H
#define SL_BASE_INTERRUPT_H

#include <stdbool.h>

/*
 * From here on the first SIGINT or SIGTERM only sets a flag, so that a long command can remove
 * what it began; a second one kills. sl_interrupt_check() is SL_EABORTED once the flag is set. A
 * file that may not grow (ulimit -f) is an error of its write, for the same reason.
 */
void sl_interrupt_catch(void);
bool sl_interrupt_seen(void);
int sl_interrupt_check(void);

#endif
