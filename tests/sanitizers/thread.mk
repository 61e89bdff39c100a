# What runs under ThreadSanitizer: `make SAN=thread thread-tests`, then `SAN=thread scripts/check unit
# stress` on that build. The folders that have threads, or memory that several processes share.
THREAD_FOLDERS := ipc http sampler trainer daemon

# Left out, and why:
#   test_ipc_group_model     one thread: a model that is searched, a minute
#   test_sampler_gpu, test_trainer_cuda, test_trainer_gpu
#                            threads of an emulated GPU are fibres, which ThreadSanitizer can not follow
# In those that are run: threads of OpenMP are not followed (libgomp is not instrumented), so there is one
# (OMP_NUM_THREADS=1); single tests that fork beside threads and then start some skip themselves.
THREAD_LEFT_OUT := ipc_group_model sampler_gpu trainer_cuda trainer_gpu

THREAD_NAMES := $(filter-out $(THREAD_LEFT_OUT:%=test_%),$(foreach f,$(THREAD_FOLDERS),\
                $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_$(f)_*.c))))
.PHONY: thread-tests
thread-tests: $(THREAD_NAMES:%=$(BIN)/tests/%) $(BIN)/tests/stress/ledger $(BIN)/tests/stress/group
