/*
 * run_name.h - the run directory that a word means when no job of that name is known any more.
 *
 * Jobs of `sluice run` that are over are in nobody's list. Their directories are looked for where
 * jobs put them: the working directory and `runs/` in it, by the directory's name and by the name
 * that the job had. So many entries of each are looked at, no deeper, and nothing is guessed.
 */
#ifndef SL_CLI_RUN_NAME_H
#define SL_CLI_RUN_NAME_H

#include <stdbool.h>

enum { SL_RUN_NAME_BYTES = 4096, SL_RUN_NAME_ENTRIES = 2000 };

/*
 * SL_OK: the word itself where it is a run directory, else the only one that is called so.
 * SL_ENOENT without a message: there is none. SL_EINVAL with their names: there are several.
 */
int sl_run_name_find(const char *word, char run[SL_RUN_NAME_BYTES]);

// Whether `sluice run RUN/config.json`, said here, would go on in this directory: its output counts
// from the working directory.
bool sl_run_name_is_output(const char *run);

#endif
