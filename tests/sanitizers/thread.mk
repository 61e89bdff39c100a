# What runs under ThreadSanitizer: `make SAN=thread thread-tests`, then `SAN=thread scripts/check unit
# stress` on that build. Unit tests of the folders that have threads or memory that several processes
# share, but those below; of the broker, those that use its pool of threads; the stress programs, whose
# bodies run as threads of one process.
#
# Left out, and why:
#   one thread    those that start no second one (`strace -f -e clone3` shows none): there is nothing to
#                 race with
#   too long      data_validate, data_shuffle: minutes, nothing found in them
#   forks         arena_peer_memory: lenders are processes with threads of their own
#   fibres        sampler_gpu, trainer_bf16, _bus, _cuda, _edge_rows, _gpu, _lent, _store, _typed,
#                 _typed_cache, _waits: the threads of an emulated GPU, which ThreadSanitizer cannot follow
# A test that forks beside threads and starts some in the child skips itself.
THREAD_FOLDERS  := arena bus http sampler trainer daemon
ONE_THREAD      := $(patsubst %,arena_%,asks async fetch group_model held lanes ledger lend nodes) \
                   $(patsubst %,arena_%,peer_export restore row_cache seat) \
                   bus_runtime_dir $(patsubst %,http_%,guard prometheus store) \
                   $(patsubst %,sampler_%,draw exclude expand forest mark pairs plan subgraph topology) \
                   $(patsubst %,trainer_%,cache evaluate golden jumping kinds layers logits_check) \
                   $(patsubst %,trainer_%,model needed neighbours norm objective typed_golden typed_layers update) \
                   $(patsubst %,daemon_%,queue record recover registry root)
THREAD_LEFT_OUT := $(ONE_THREAD) arena_peer_memory sampler_gpu sampler_mirror sampler_share \
                   $(patsubst %,trainer_%,bf16 blocks bus cuda edge_rows gpu lent store typed) \
                   trainer_typed_cache trainer_waits
THREAD_ADDED    := broker_job broker_metrics broker_phases broker_watch

THREAD_NAMES := $(filter-out $(THREAD_LEFT_OUT),$(foreach f,$(THREAD_FOLDERS),\
                $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_$(f)_*.c)))) $(THREAD_ADDED)
.PHONY: thread-tests
thread-tests: $(THREAD_NAMES:%=$(BIN)/tests/test_%) $(BIN)/tests/stress/ledger
