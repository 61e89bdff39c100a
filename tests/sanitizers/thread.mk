# What runs under ThreadSanitizer: `make SAN=thread thread-tests`, then `SAN=thread scripts/check unit
# stress` on that build. Unit tests of the folders that have threads or memory that several processes
# share, but those below; of the broker, those that use its pool of threads; the stress programs, whose
# bodies run as threads of one process.
#
# Left out, and why:
#   one thread    arena_group_model (a model that is searched), sampler_draw, trainer_evaluate, _golden,
#                 _jumping, _kinds, _layers, _model, _neighbours, _norm, _objective: six minutes of
#                 arithmetic, nothing to race with
#   too long      data_validate, data_shuffle: minutes, nothing found in them
#   forks         arena_peer_memory: lenders are processes with threads of their own
#   fibres        sampler_gpu, trainer_bf16, _bus, _cuda, _gpu, _lent, _store, _waits: the threads of an emulated
#                 GPU, which ThreadSanitizer cannot follow
# In those that run: OpenMP's threads are not followed (libgomp is not instrumented), so there is one of
# them (OMP_NUM_THREADS=1); a test that forks beside threads and starts some in the child skips itself.
THREAD_FOLDERS  := arena bus http sampler trainer daemon
THREAD_LEFT_OUT := arena_group_model arena_peer_memory sampler_draw \
                   $(patsubst %,trainer_%,evaluate golden jumping kinds layers model neighbours norm objective) \
                   sampler_gpu sampler_mirror sampler_share $(patsubst %,trainer_%,bf16 blocks bus cuda gpu lent store waits)
THREAD_ADDED    := broker_checkpoint broker_job broker_metrics broker_phases broker_watch

THREAD_NAMES := $(filter-out $(THREAD_LEFT_OUT),$(foreach f,$(THREAD_FOLDERS),\
                $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_$(f)_*.c)))) $(THREAD_ADDED)
.PHONY: thread-tests
thread-tests: $(THREAD_NAMES:%=$(BIN)/tests/test_%) $(BIN)/tests/stress/ledger
