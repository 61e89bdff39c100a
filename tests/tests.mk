# Test programs and what they load. Included by the Makefile.

# unit: test_<library>_<subject>.c links what <library> may see, and Check.
UNIT_NAMES := $(patsubst %.c,%,$(wildcard tests/unit/test_*.c))
UNIT_NAMES := $(UNIT_NAMES:tests/unit/%=tests/%)
UNIT_BIN   := $(UNIT_NAMES:%=$(BIN)/%)
unit_test = FROM_$(1) := $(OBJ)/$(1:tests/%=tests/unit/%).o $(call libs_of,$(word 2,$(subst _, ,$(1))))
$(foreach t,$(UNIT_NAMES),$(eval $(call unit_test,$(t))))
$(call made_in,$(BIN),$(UNIT_NAMES))
$(UNIT_BIN): LINK_MORE = $(CHECK_LIBS)
# A test runs for a moment: its compilation is what takes time. But for those that compute all by
# themselves once more, element by element or plan by plan.
$(OBJ)/tests/unit/%.o: OPT := $(patsubst -O%,-O0,$(OPT))
ORACLES := arena_peer_export arena_shared_copy broker_shape data_overlap kernels_exclude kernels_khop \
           kernels_weighted sampler_draw sampler_pairs storage_rows store_placement
$(ORACLES:%=$(OBJ)/tests/unit/test_%.o): OPT := $(patsubst -O%,-O1,$(OPT))

# Undefined behaviour is looked for in what they test: to look for it in them, too, takes the compiler twice as long.
$(OBJ)/tests/unit/%.o: SANFLAGS += $(if $(filter address undefined,$(SAN)),-fno-sanitize=undefined)

# kernels, bench/kernels: one driver each, the latter with what jobs share memory by; stress: one program a file, of the arena alone; bench: one
# program a file, linked with everything a sampler and a trainer may see.
objects_of = $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(1)))
DRIVERS := tests/kernels tests/bench/kernels
FROM_tests/kernels       := $(call objects_of,tests/kernels/*.c) $(LIB)/libsl_text.a $(call libs_of,kernels)
FROM_tests/bench/kernels := $(call objects_of,tests/bench/kernels/*.c tests/kernels/backend.c) $(call libs_of,sampler)
$(call made_in,$(BIN),$(DRIVERS))
# Ceilings and peers: OpenMP's threads, oneDNN's products.
$(OBJ)/tests/bench/%.o: CFLAGS += -fopenmp
%/tests/bench/kernels: LDLIBS += -ldnnl -lgomp

STRESS_BIN := $(patsubst %.c,$(BIN)/%,$(wildcard tests/stress/*.c))
$(STRESS_BIN): $(BIN)/%: $(OBJ)/%.o $(LIB)/libsl_text.a $(call libs_of,arena)

TOOL_BIN := $(patsubst %.c,$(BIN)/%,$(wildcard tests/bench/*.c))
$(TOOL_BIN): LDLIBS += -lgomp
$(TOOL_BIN): $(BIN)/%: $(OBJ)/%.o $(patsubst %,$(LIB)/libsl_%.a,$(filter-out http daemon,$(LIBS)))

# What end-to-end tests run beside the programs: external trainers.
E2E_BIN := $(patsubst %.c,$(BIN)/%,$(wildcard tests/e2e/*.c))
$(E2E_BIN): $(BIN)/%: $(OBJ)/%.o $(call libs_of,workers)

# The quicker linker, where it is: there are some three hundred programs.
QUICK_LINK := $(if $(TESTING),$(shell command -v ld.gold >/dev/null && echo -fuse-ld=gold))
BENCHES      := $(BIN)/tests/bench/kernels $(TOOL_BIN)
LINKED_TESTS := $(UNIT_BIN) $(BIN)/tests/kernels $(STRESS_BIN) $(E2E_BIN) $(BENCHES)
$(LINKED_TESTS): LDFLAGS += $(QUICK_LINK)
$(LINKED_TESTS):
	$(link)

# A plug-in and a METIS that are wrong on demand, for test_device_plugin and test_partition_*; an
# NVML that says of the emulated GPU what a test wants.
FAKES := $(LIB)/fake_plugin.so $(LIB)/fake_nvml.so $(LIB)/fake_metis.so
$(BIN)/tests/test_partition_metis $(BIN)/tests/test_partition_make: | $(LIB)/fake_metis.so
$(BIN)/tests/test_device_plugin: | $(LIB)/fake_plugin.so
$(BIN)/tests/test_device_cuda: | $(LIB)/fake_nvml.so
$(LIB)/fake_plugin.so: common/device/plugin.h common/device/device.h common/base/version.h
$(LIB)/fake_nvml.so: kernels/cuda/nvml.h
$(FAKES): $(LIB)/%.so: tests/unit/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O1 -fPIC -shared -I. $< -o $@

# Programs of others, which see include/sluice.h and the library alone: the examples in C, and its
# header in C++.
EXAMPLES := $(patsubst %.c,$(BIN)/%,$(wildcard examples/*.c))
HEADER_IN_CPP := $(OBJ)/tests/sluice_in_cpp.o
$(EXAMPLES): $(BIN)/%: %.c include/sluice.h $(LIBSLUICE)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 -Wall -Wextra -pedantic $(SANFLAGS) -Iinclude $< -L$(LIB) -lsluice -Wl,-rpath,'$$ORIGIN/../../lib' -lm -o $@
$(HEADER_IN_CPP): include/sluice.h
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -pedantic -Werror -x c++ -c $< -o $@

# What `scripts/check --tier rest` runs of them (it reads the folders here): for a run that builds all
# with a sanitizer. Folders whose code has bodies for several instruction sets, and those that compute
# by them: an optimised build may show what a sanitized one does not.
SIMD_FOLDERS := base kernels trainer sampler
REST_UNIT    := $(foreach f,$(SIMD_FOLDERS),$(filter $(BIN)/tests/test_$(f)_%,$(UNIT_BIN)))
# With a sanitizer nobody measures.
TEST_PROGRAMS := $(if $(filter-out coverage,$(SAN)),$(filter-out $(BENCHES),$(LINKED_TESTS)),$(LINKED_TESTS)) $(FAKES) $(EXAMPLES) $(HEADER_IN_CPP)
