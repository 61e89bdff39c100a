/*
 * dataset_fault.h - a process that reads behind the end of a file names it before it dies.
 *
 * A file that somebody shortens while it is mapped, or a drive that cannot be read, shows as
 * SIGBUS, of which the kernel's report names no file. From here on this process says on standard
 * error which file of an open data set it was, in a line that begins with `who`, and then dies of
 * the signal as it would have.
 */
#ifndef SL_DATA_DATASET_FAULT_H
#define SL_DATA_DATASET_FAULT_H

void sl_dataset_name_faults(const char *who); // borrowed for good

#endif
