// world_command.h - commands that run as one process on each of several nodes, started by mpirun or
// srun: they meet, compare themselves and are measured (nodes/survey.h).
#ifndef SL_CLI_WORLD_COMMAND_H
#define SL_CLI_WORLD_COMMAND_H

#include "nodes/survey.h"

/*
 * All of it. name: of the command, for messages. *problems: what the first node has found. Of an
 * error once the world is open this process ends with all others, when it has been said. SL_EINVAL:
 * no launcher is seen; errors of world.h.
 */
int sl_world_command_run(const char *name, const struct sl_survey_spec *survey, uint32_t *problems);

#endif
