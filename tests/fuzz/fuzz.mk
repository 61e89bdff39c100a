# Fuzz targets (README.md beside this file): tests/fuzz/<library>_<subject>.c links what <library> may
# see, as a unit test does, and fuzz.c. Included by the Makefile.
#
#   $(FUZZ_BIN)      with driver.c, by $(CC): their corpus runs in the ordinary checks
#   make fuzz        with libFuzzer, AddressSanitizer and UBSan where clang has them, else with
#                    driver.c; each for FUZZ_SECONDS or FUZZ_RUNS inputs, as many at once as there are cores
FUZZ_SECONDS ?= 3600
FUZZ_RUNS    ?= 0
FUZZ_SRC   := $(filter-out tests/fuzz/fuzz.c tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c))
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(FUZZ_SRC))
FUZZ_BIN   := $(patsubst %,$(BIN)/tests/fuzz/%,$(FUZZ_NAMES))
fuzz_library = $(word 1,$(subst _, ,$(1)))
FUZZ_COMMON := $(OBJ)/tests/fuzz/fuzz.o $(OBJ)/tests/fuzz/driver.o

fuzz_target = $(BIN)/tests/fuzz/$(1): $(OBJ)/tests/fuzz/$(1).o $(FUZZ_COMMON) $(call libs_of,$(call fuzz_library,$(1)))
$(foreach t,$(FUZZ_NAMES),$(eval $(call fuzz_target,$(t))))
$(FUZZ_BIN): LDFLAGS += $(QUICK_LINK)
$(FUZZ_BIN):
	$(link)

# The same with clang's eyes, from one archive: whole folders, and of the large ones what is needed.
CLANG ?= $(firstword $(shell command -v clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14))
FUZZ_O      := build/fuzz
FUZZ_FLAGS  := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined \
               -fno-sanitize-recover=undefined -DSL_SANITIZED
FUZZ_CFLAGS  = $(CSTD) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -Wall -Wextra -Wno-unused-parameter \
               -I. -I$(GEN) $(PKG_CFLAGS)
# Of those folders, what no target calls; a target that comes to need one does not link.
FUZZ_UNUSED := interrupt memory stopped layout options progress sentence table class_counts dataset_contents \
               dataset_fault dataset_hold dataset_open dataset_pairs dataset_record dataset_shard dataset_times \
               dataset_validate id_list names overlap self_loops typed_json weightless wider_graph host mps block ledger_look \
               ledger_reclaim peer_export peer_import shared_array shared_copy store_way assignment attach attach_protocol \
               publish runtime_dir worker explain learning_rate schema standalone http
FUZZ_PARTS  := $(foreach l,base text schema data device arena bus config page http,$(SRC_$(l))) \
               $(foreach f,checkpoint checkpoint_check early_stopping exit_status history link_bytes link_metrics metrics params placement plan ranking report resume row_files rundir score_order snapshot,$(or $(wildcard broker/*/$(f).c),$(error FUZZ_PARTS: broker has no $(f).c))) \
               $(patsubst %,dataset/%.c,array_reader edge_columns edge_heading line_fields pickle torch_file yaml_reader zip_reader)
$(foreach f,$(FUZZ_UNUSED),$(if $(filter %/$(f).c,$(FUZZ_PARTS)),,$(error FUZZ_UNUSED: no part is named $(f).c)))
FUZZ_OBJ    := $(patsubst %.c,$(FUZZ_O)/obj/%.o,$(filter-out $(foreach f,$(FUZZ_UNUSED),%/$(f).c),$(FUZZ_PARTS)) tests/fuzz/fuzz.c) \
               $(PROTO_bus:%.proto=$(FUZZ_O)/obj/%.pb-c.o)

$(FUZZ_O)/obj/%.o: %.c | $(GEN_HDR)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  FUZZ    $<")
	$(Q)$(CCACHE) $(CLANG) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

$(FUZZ_O)/obj/%.pb-c.o: $(GEN)/%.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CLANG) $(FUZZ_CFLAGS) -c $< -o $@

$(FUZZ_O)/obj/broker/page/files.o: $(wildcard broker/page/*.html broker/page/*.css broker/page/*.js)

$(FUZZ_O)/libsl_fuzz.a: $(FUZZ_OBJ) tests/fuzz/fuzz.mk
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(FUZZ_O)/bin/%: $(FUZZ_O)/obj/tests/fuzz/%.o $(FUZZ_O)/libsl_fuzz.a
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer $^ $(LDLIBS) -o $@

# libFuzzer is a package of its own beside clang: whether it is there shows when it is linked.
HAS_LIBFUZZER = $(and $(CLANG),$(filter fuzz,$(MAKECMDGOALS)),$(shell echo 'int LLVMFuzzerTestOneInput(void);int LLVMFuzzerTestOneInput(void){return 0;}' | $(CLANG) -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes))
FUZZ_PROGRAMS = $(if $(HAS_LIBFUZZER),$(patsubst %,$(FUZZ_O)/bin/%,$(FUZZ_NAMES)),$(FUZZ_BIN))

.SECONDARY: $(patsubst %,$(FUZZ_O)/obj/tests/fuzz/%.o,$(FUZZ_NAMES))
.PHONY: fuzz fuzz-programs soak
fuzz-programs: $(FUZZ_BIN)

fuzz: $(if $(filter fuzz,$(MAKECMDGOALS)),$(FUZZ_PROGRAMS))
	@tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --runs $(FUZZ_RUNS) --folder $(FUZZ_O) $(FUZZ_PROGRAMS)

soak: $(PROGRAMS)
	@BIN=$(abspath $(BIN)) tests/crash/soak.py $(SOAK)

-include $(shell find $(FUZZ_O)/obj -name '*.d' 2>/dev/null)
