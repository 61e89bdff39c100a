// programs.h - where sluice's programs are, for a library that lies in somebody else's.
#ifndef SL_LOADER_PROGRAMS_H
#define SL_LOADER_PROGRAMS_H

#include <limits.h>

/*
 * The folder of sluice-broker: `given`, or the environment's SLUICE_PROGRAMS, and nowhere else
 * where there is one of these; else this library's own folder, ../bin and ../../bin from there, the
 * folders of PATH. SL_ENOENT with those that were looked at.
 */
int sl_loader_programs(const char *given, char out[PATH_MAX]);

#endif
