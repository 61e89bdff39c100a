/*
 * stopped.h - another process that was stopped (SIGSTOP) and does not go on.
 *
 * One that works lives however long it takes, and says nothing meanwhile; one that is stopped says
 * nothing for ever. The kernel knows which it is.
 */
#ifndef SL_BASE_STOPPED_H
#define SL_BASE_STOPPED_H

#include <stdint.h>
#include <sys/types.h>

// Of a process that is looked after; begins zeroed.
struct sl_stopped {
    uint64_t looked_ns;
    uint32_t found; // by so many looks in a row
};

// To be called often: looks once a second. How many looks in a row have found it stopped: looks are
// counted and not the clock, since who stood still himself, as when a whole machine is suspended,
// has not looked.
uint32_t sl_stopped_look(struct sl_stopped *s, pid_t pid, uint64_t now_ns);

#endif
