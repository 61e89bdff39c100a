/*
 * predict.h - `sluice-trainer --predict` and `--describe`: the model outside of any job.
 *
 * The command line, which knows no model, starts this program and talks to it:
 *
 *   descriptor 0   from the command line: "go" once the parameters are there
 *   descriptor 1   to it, lines:  hello BYTES             and so many bytes, a packed Hello
 *                                 progress LAYER LAYERS DONE TOTAL
 *                                 result KEY VALUE
 *                                 result check LARGEST VERTEX OUTPUT FOUND WANTED LOGARITHMS
 *                                 error CODE MESSAGE      the last one; exit status 1
 *   descriptor 4   the job and its data set (assignment.h; SL_WORKER_FD_CONFIG)
 *   descriptor 5   the flat parameter vector, of the Hello's tensors in their order
 *
 *   sluice-trainer --describe --parent PID
 *   sluice-trainer --predict  --parent PID --out FILE.npy --kind KIND --scratch DIR
 *                  --set train|val|test|all | --nodes FILE.npy | --pairs FILE.npy
 *                  [--type NAME] [--layer K] [--memory BYTES] [--chunk ROWS] [--threads N]
 *                  [--device cpu|cuda:N] [--gpu-memory BYTES]
 *   sluice-trainer --predict  --parent PID --check FILE.npy ...
 *
 * KIND is logits, probabilities, classes or hidden. The result appears under its name whole or not
 * at all. With --check nothing is written: the logits of all vertices are compared with FILE's
 * (logits_check.h), and how far they are apart is a result. When the command line dies
 * (PR_SET_PDEATHSIG) or asks with SIGTERM, the program removes what it began.
 */
#ifndef SL_TRAINER_PREDICT_H
#define SL_TRAINER_PREDICT_H

#include <stdbool.h>

// Whether the arguments ask for this and not for a worker.
bool sl_predict_asked(int argc, char **argv);

// The whole program; returns the exit status.
int sl_predict_main(int argc, char **argv);

#endif
