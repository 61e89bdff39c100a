# sluice - `make` builds, `make demo` shows it working, `make check` tests it.
#
#   make                 build/bin/{sluice,sluice-broker,sluice-sampler,sluice-trainer}
#   make demo            install what is missing, build, generate a graph, train on it
#   make check           install what is missing, build, run the tests    [SAN=address|undefined|thread]
#   make check-all       the same with every case of every test
#   make bundle          an archive that runs where nothing can be installed, with the CUDA plug-in
#   make bench           ceilings of this machine and what sluice reaches of them
#   make fuzz, make soak what reads foreign bytes, and a daemon, for hours  [FUZZ_SECONDS, SOAK]
#   make coverage        lines that the tests run, by folder
#   make lint            format, static analysis, header and layer checks
#   make man             manual pages in build/man, from what --help says
#   make clean
#
# Variables: SAN, CC, O (build directory), CUDA=auto|0|1, NVCC, CUDA_ARCHS, V=1 (show commands). Without
# -j as many commands run at once as there are processors.

SAN   ?=
CUDA  ?= auto
O     ?= build$(if $(SAN),/$(SAN))
# What no sanitizer is in: the plug-in and its emulation are one for all builds.
PLAIN := $(if $(SAN),$(patsubst %/$(SAN),%,$(O)),$(O))
BIN   := $(O)/bin
OBJ   := $(O)/obj
LIB   := $(O)/lib
GEN   := $(O)/gen
Q     := $(if $(V),,@)

.DEFAULT_GOAL := all
comma := ,

ifeq ($(MAKELEVEL)$(filter -j% --jobserver%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- set-up: only demo and check install packages; everything else says what is missing -----------
# A stamp keeps the second time quick; scripts/setup checks the package list against it.
GOALS := $(filter-out clean help,$(or $(MAKECMDGOALS),all))
ifneq ($(GOALS),)
CHECKS  := $(filter check check-all,$(GOALS))
INSTALL := $(and $(filter check check-all demo,$(GOALS)),$(if $(findstring n,$(firstword -$(MAKEFLAGS))),,yes))
LISTS   := scripts/packages $(if $(filter-out all demo man plugin bundle,$(GOALS)),scripts/packages.tests) \
           $(if $(CHECKS),--maybe scripts/packages.check)
ifneq ($(shell scripts/setup $(if $(INSTALL),install,look) $(LISTS) >&2 && echo ok),ok)
$(error set-up failed; the message above says what is missing)
endif
endif

PKGS := libuv libzmq libprotobuf-c libcjson hwloc zlib libzip yaml-0.1 libxxhash libsodium libmicrohttpd ncursesw
ifneq ($(GOALS),)
PKG_CFLAGS := $(filter-out -D_%,$(shell pkg-config --cflags $(PKGS)))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS))
CHECK_LIBS := $(shell pkg-config --libs check)
endif

CSTD    := -std=c17 -D_GNU_SOURCE
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wvla -Wno-unused-parameter $(if $(CI),-Werror)
OPT     := -O3 -g -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp
SANFLAGS :=
ifeq ($(SAN),address)
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DSL_SANITIZED
OPT := -O1 -g -fno-math-errno -fopenmp
else ifeq ($(SAN),undefined)
SANFLAGS := -fsanitize=undefined -fno-sanitize-recover=undefined -DSL_SANITIZED
else ifeq ($(SAN),thread)
SANFLAGS := -fsanitize=thread -DSL_SANITIZED
OPT := -O1 -g -fno-math-errno -fopenmp
else ifeq ($(SAN),coverage)
SANFLAGS := --coverage -fprofile-update=atomic
else ifneq ($(SAN),)
$(error SAN=$(SAN): wanted address, undefined or thread)
endif
CFLAGS   = $(CSTD) $(OPT) $(WARN) $(SANFLAGS) -I. -I$(GEN) $(PKG_CFLAGS)
ifeq ($(shell uname -m),x86_64)
OPT += -mprefer-vector-width=512
endif
LDFLAGS  = $(OPT) $(SANFLAGS)
LDLIBS   = $(PKG_LIBS) -ldnnl -lm -lpthread -ldl

# ---- libraries: a folder is a library; folders.mk says which it may see --------------------------
folder = $(eval LIBS := $(1) $(LIBS))$(eval FOLDER_$(1) := $(2))$(eval USES_$(1) := $(3))
include folders.mk
$(foreach l,$(LIBS),$(eval SRC_$(l) := $(filter-out %/main.c,$(wildcard $(FOLDER_$(l))/*.c))))
SRC_kernels += $(wildcard kernels/ref/*.c kernels/cpu/*.c)

# What a library needs to be linked, users before what they use, as the linker wants it.
closure = $(1) $(foreach u,$(USES_$(1)),$(call closure,$(u)))
libs_of = $(patsubst %,$(LIB)/libsl_%.a,$(filter $(call closure,$(1)),$(LIBS)))

# Messages: a .proto is compiled into the library that it stands in.
PROTO_ipc    := common/ipc/control.proto
PROTO_broker := $(wildcard broker/tfevent.proto)
PROTOS  := $(PROTO_ipc) $(PROTO_broker)
GEN_HDR := $(patsubst %.proto,$(GEN)/%.pb-c.h,$(PROTOS))

# An archive is also made again when it is of other sources than there are now, whatever their times
# (a checkout brings and takes files): NAME.sources has the list it was made of.
define library
OBJ_$(1) := $$(patsubst %.c,$(OBJ)/%.o,$$(SRC_$(1)))
ifneq ($$(strip $$(file <$(LIB)/$(1).sources)),$$(SRC_$(1)))
$(LIB)/libsl_$(1).a: always
endif
$(LIB)/libsl_$(1).a: $$(OBJ_$(1)) $$(patsubst %.proto,$(OBJ)/%.pb-c.o,$$(PROTO_$(1)))
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^) && echo '$$(SRC_$(1))' >$(LIB)/$(1).sources
endef
.PHONY: always
$(foreach l,$(LIBS),$(eval $(call library,$(l))))

$(OBJ)/%.o: %.c | $(GEN_HDR)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CC      $<")
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# Files that are in an object through .incbin, which the compiler's dependencies do not know of.
$(OBJ)/broker/page/files.o: $(wildcard broker/page/*.html broker/page/*.css broker/page/*.js)
$(OBJ)/broker/cli/completion.o: $(wildcard scripts/completion/*)

$(GEN)/%.pb-c.c $(GEN)/%.pb-c.h &: %.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=. --c_out=$(GEN) $<

$(OBJ)/%.pb-c.o: $(GEN)/%.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) -O2 $(SANFLAGS) -I$(GEN) $(PKG_CFLAGS) -c $< -o $@

# ---- programs -----------------------------------------------------------------------------------
FROM_sluice  := $(OBJ)/broker/cli/main.o $(call libs_of,cli)
FROM_broker  := $(OBJ)/broker/main.o $(call libs_of,daemon)
FROM_sampler := $(OBJ)/sampler/main.o $(call libs_of,sampler)
FROM_trainer := $(OBJ)/trainer/main.o $(call libs_of,trainer)
FROM_kernel_test := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/kernels/*.c)) $(call libs_of,kernels)
FROM_kernel_bench := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/bench/kernels/*.c) tests/kernels/backend.c) $(call libs_of,kernels)
PROGRAMS := $(BIN)/sluice $(BIN)/sluice-broker $(BIN)/sluice-sampler $(BIN)/sluice-trainer
$(BIN)/sluice:         $(FROM_sluice)
$(BIN)/sluice-broker:  $(FROM_broker)
$(BIN)/sluice-sampler: $(FROM_sampler)
$(BIN)/sluice-trainer: $(FROM_trainer)
$(PROGRAMS):
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

.PHONY: all
all: $(PROGRAMS)

# ---- the CUDA plug-in ---------------------------------------------------------------------------
# CUDA=auto: built where nvcc is; 1: must be; 0: never. Programs need no part of it to start.
# What it is made of besides kernels/cuda: the plain C that its host code calls, compiled for a
# shared object (its own copy: common/base/error.h says how its messages reach the program).
PLUGIN_CU := $(wildcard kernels/cuda/*.cu)
PLUGIN_CC := $(wildcard kernels/cuda/*.cc)
PLUGIN_C  := common/base/clock.c common/base/error.c common/base/log.c common/base/mempool.c $(wildcard kernels/check*.c) \
             kernels/khop.c kernels/walk.c kernels/weighted.c
PLUGIN     := $(PLAIN)/lib/libsluice_cuda.so
PLUGIN_OBJ := $(PLAIN)/obj/cuda
PLUGIN_CUDA_OBJ := $(PLUGIN_CU:%.cu=$(PLUGIN_OBJ)/%.o) $(PLUGIN_CC:%.cc=$(PLUGIN_OBJ)/%.cc.o)
PLUGIN_C_OBJ    := $(PLUGIN_C:%.c=$(PLUGIN_OBJ)/%.o)

ifneq ($(CUDA),0)
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
endif
ifeq ($(CUDA),1)
ifeq ($(strip $(NVCC)),)
$(error CUDA=1: there is no nvcc in /usr/local/cuda/bin nor in PATH; name it with NVCC=, or build with CUDA=auto)
endif
else ifeq ($(filter auto 0,$(CUDA)),)
$(error CUDA=$(CUDA): wanted auto, 1 or 0)
endif

# Code for A100 (8.0, which 8.6 and 8.9 run too) and H100 (9.0); newer GPUs compile the PTX of the
# last one at their first use and keep it.
CUDA_ARCHS ?= 80 90
CUDA_ARCH  := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
              -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
CUDA_HOME  := $(patsubst %/bin/nvcc,%,$(NVCC))
NVCCFLAGS  := -std=c++17 -O3 $(CUDA_ARCH) -cudart static -I. \
              -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wno-unused-parameter$(if $(CI),$(comma)-Werror)
PLUGIN_CXXFLAGS := -std=c++17 -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter \
                   $(if $(CI),-Werror) -I. -isystem $(CUDA_HOME)/include
PLUGIN_CFLAGS   := $(CSTD) -O2 -g -fPIC -fvisibility=hidden $(WARN) -I.

$(PLUGIN_OBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  NVCC    $<")
	$(Q)$(NVCC) $(NVCCFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

$(PLUGIN_OBJ)/%.cc.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CXX) $(PLUGIN_CXXFLAGS) -MMD -MP -c $< -o $@

$(PLUGIN_OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(PLUGIN_CFLAGS) -MMD -MP -c $< -o $@

# Only the entry and the measurements are exported, and nothing of the program's is taken in its place.
PLUGIN_LINK := -shared -cudart static -Xlinker -Bsymbolic,--exclude-libs,ALL,--no-undefined,-soname,libsluice_cuda.so \
               -Xcompiler -static-libgcc,-static-libstdc++ -ldl -lrt -lpthread
$(PLUGIN): $(PLUGIN_CUDA_OBJ) $(PLUGIN_C_OBJ)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LINK    $@")
	$(Q)$(NVCC) $(PLUGIN_LINK) $^ -o $@.part && mv $@.part $@

# With CUDA=auto a toolkit that does not work is said once and does without.
.PHONY: plugin plugin-or-not
plugin: $(PLUGIN)
plugin-or-not:
	@$(MAKE) --no-print-directory CUDA=1 NVCC=$(NVCC) plugin || \
	    { rm -f $(PLUGIN); echo "make: the CUDA plug-in was not built (above is why): the programs run on CPUs only" >&2; }
# Programs under a sanitizer are not for GPUs.
ifeq ($(CUDA),1)
PLUGIN_GOAL := plugin
else ifneq ($(strip $(NVCC)),)
PLUGIN_GOAL := $(if $(SAN),,plugin-or-not)
endif
all: $(PLUGIN_GOAL)

# Registers, spills and shared memory of every kernel, as a table.
.PHONY: cuda-figures
cuda-figures:
	@NVCC="$(NVCC)" NVCCFLAGS="$(NVCCFLAGS)" OUT=$(O)/cuda-figures scripts/cuda-figures

# ---- an archive that runs where nothing can be installed ----------------------------------------
# The programs once more, linked so that they find libraries beside them (RPATH and not RUNPATH, which
# would not hold for the libraries of libraries), without debugging information.
BUNDLE_LINK := -Wl,-rpath,'$$ORIGIN/../lib:$$ORIGIN/../lib/gcc' -Wl,--disable-new-dtags -Wl,--strip-debug
BUNDLED     := $(O)/bundle/programs
BUNDLE_BIN  := $(PROGRAMS:$(BIN)/%=$(BUNDLED)/%) $(BUNDLED)/tests/kernels $(BUNDLED)/tests/bench/kernels
$(BUNDLED)/sluice:         $(FROM_sluice)
$(BUNDLED)/sluice-broker:  $(FROM_broker)
$(BUNDLED)/sluice-sampler: $(FROM_sampler)
$(BUNDLED)/sluice-trainer: $(FROM_trainer)
$(BUNDLED)/tests/kernels:  $(FROM_kernel_test)
$(BUNDLED)/tests/kernels:  BUNDLE_LINK := $(subst ../lib,../../lib,$(BUNDLE_LINK))
$(BUNDLED)/tests/bench/kernels: $(FROM_kernel_bench)
$(BUNDLED)/tests/bench/kernels: BUNDLE_LINK := $(subst ../lib,../../../lib,$(BUNDLE_LINK))
$(BUNDLE_BIN):
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $(BUNDLE_LINK) $^ $(LDLIBS) -o $@

.PHONY: bundle
bundle: $(BUNDLE_BIN) $(PLUGIN_GOAL)
	@$(if $(SAN),echo "make bundle: not of a build with SAN=$(SAN)" >&2; exit 1)
	@scripts/bundle $(BUNDLED) $(PLUGIN) $(O)

# ---- emulation: the plug-in for a GPU that is made of fibres (tests/simt) ------------------------
# The same sources, compiled by g++ with tests/simt in place of CUDA. The checked one sees each load
# and store of the kernels: the compiler's calls for ThreadSanitizer end in tests/simt/check.cc.
SIMT_CU       := $(PLUGIN_CU) $(wildcard tests/simt/*.cu)
SIMT_OBJ      := $(PLAIN)/obj/simt
SIMT_RUNTIME  := $(patsubst %.cc,$(SIMT_OBJ)/%.o,$(wildcard tests/simt/*.cc))
SIMT_HOST     := $(PLUGIN_CC:%.cc=$(SIMT_OBJ)/%.cc.o) $(PLUGIN_C_OBJ)
SIMT_PLUGIN   := $(PLAIN)/lib/libsluice_cuda_simt.so
SIMT_CHECKED  := $(PLAIN)/lib/libsluice_cuda_simt_checked.so
SIMT_CXXFLAGS := -std=c++17 -g -fPIC -fno-gnu-unique -fdata-sections -fvisibility=hidden -fno-math-errno -Wall -Wextra \
                 -Wno-unused-parameter -Wno-unknown-pragmas -Wno-maybe-uninitialized \
                 $(if $(CI),-Werror) -DSL_SIMT -I.
SIMT_WATCH    := -O1 -fsanitize=thread --param=tsan-distinguish-volatile=1 \
                 --param=tsan-instrument-func-entry-exit=0 -DSIMT_CHECKED
SIMT_LINK     := -shared -static-libgcc -static-libstdc++ -Wl,-Bsymbolic,--exclude-libs,ALL \
                 -Wl,--no-undefined -Wl,-T,tests/simt/shared.ld $(SIMT_MISSING)

$(SIMT_OBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  SIMT    $<")
	$(Q)$(CXX) -x c++ $(SIMT_CXXFLAGS) -O2 -MMD -MP -c $< -o $@

$(SIMT_OBJ)-checked/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  SIMT    $< (checked)")
	$(Q)$(CXX) -x c++ $(SIMT_CXXFLAGS) $(SIMT_WATCH) -MMD -MP -c $< -o $@

$(SIMT_OBJ)/%.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CXX) $(SIMT_CXXFLAGS) -O2 -MMD -MP -c $< -o $@

$(SIMT_OBJ)/%.cc.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CXX) $(SIMT_CXXFLAGS) -O2 -MMD -MP -c $< -o $@

$(SIMT_PLUGIN): $(SIMT_CU:%.cu=$(SIMT_OBJ)/%.o) $(SIMT_RUNTIME) $(SIMT_HOST)
$(SIMT_CHECKED): $(SIMT_CU:%.cu=$(SIMT_OBJ)-checked/%.o) $(SIMT_RUNTIME) $(SIMT_HOST)
$(SIMT_PLUGIN) $(SIMT_CHECKED): tests/simt/shared.ld
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LINK    $@")
	$(Q)$(CXX) $(SIMT_LINK) $(filter %.o,$^) -ldl -lpthread -lm -o $@.part && mv $@.part $@

# Tests look beside the programs.
SIMT := $(sort $(SIMT_PLUGIN:$(PLAIN)/%=$(O)/%) $(SIMT_CHECKED:$(PLAIN)/%=$(O)/%))
ifneq ($(PLAIN),$(O))
$(SIMT): $(LIB)/%: $(PLAIN)/lib/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
endif

.PHONY: simt
simt: $(SIMT)

# ---- tests --------------------------------------------------------------------------------------
# tests/unit/test_<library>_<subject>.c links what <library> may see, and Check.
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(BIN)/tests/%,$(UNIT_SRC))
define unit_test
$(BIN)/tests/$(1): $(OBJ)/tests/unit/$(1).o $(call libs_of,$(word 2,$(subst _, ,$(1))))
	@mkdir -p $$(@D)
	@$(if $(V),,echo "  LD      $$@")
	$$(Q)$$(CC) $$(LDFLAGS) $$^ $$(CHECK_LIBS) $$(LDLIBS) -o $$@
endef
$(foreach t,$(patsubst tests/unit/%.c,%,$(UNIT_SRC)),$(eval $(call unit_test,$(t))))

# A plug-in that is wrong on demand, for test_device_plugin.
FAKE_PLUGIN := $(LIB)/fake_plugin.so
$(BIN)/tests/test_device_plugin: | $(FAKE_PLUGIN)
$(FAKE_PLUGIN): tests/unit/fake_plugin.c common/device/plugin.h common/device/device.h common/base/version.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O1 -fPIC -shared -I. $< -o $@

# An NVML that says of the emulated GPU what a test wants.
FAKE_NVML := $(LIB)/fake_nvml.so
$(BIN)/tests/test_device_cuda: | $(FAKE_NVML)
$(FAKE_NVML): tests/unit/fake_nvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O1 -fPIC -shared -I. $< -o $@

# tests/kernels, tests/bench/kernels: one driver each; tests/stress: one program a file, of the arena
# alone; tests/bench: one program a file, linked with everything a sampler and a trainer may see.
ALL_LIBS := $(patsubst %,$(LIB)/libsl_%.a,$(filter-out http daemon,$(LIBS)))
KERNEL_TEST := $(BIN)/tests/kernels
KERNEL_BENCH := $(BIN)/tests/bench/kernels
$(KERNEL_TEST): $(FROM_kernel_test)
$(KERNEL_BENCH): $(FROM_kernel_bench)
$(KERNEL_TEST) $(KERNEL_BENCH):
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

STRESS_BIN := $(patsubst tests/%.c,$(BIN)/tests/%,$(wildcard tests/stress/*.c))
$(STRESS_BIN): $(BIN)/tests/%: $(OBJ)/tests/%.o $(call libs_of,ipc)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

TOOL_SRC := $(wildcard tests/bench/*.c)
TOOL_BIN := $(patsubst tests/%.c,$(BIN)/tests/%,$(TOOL_SRC))
$(TOOL_BIN): $(BIN)/tests/%: $(OBJ)/tests/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Fuzz targets, `make fuzz` and `make soak`; what runs under ThreadSanitizer.
include tests/fuzz/fuzz.mk tests/sanitizers/thread.mk

.PHONY: tests check check-all bench demo lint man clean help
tests: $(PROGRAMS) $(UNIT_BIN) $(FAKE_PLUGIN) $(FAKE_NVML) $(KERNEL_TEST) $(KERNEL_BENCH) $(STRESS_BIN) $(TOOL_BIN) $(FUZZ_BIN) $(SIMT) $(if $(SAN),,$(BUNDLE_BIN))

check: tests
	@BIN=$(abspath $(BIN)) SAN=$(SAN) scripts/check

check-all: tests
	@BIN=$(abspath $(BIN)) SAN=$(SAN) scripts/check --tier whole

# Which lines the quick tier runs, by folder.
.PHONY: coverage
coverage:
	@$(MAKE) --no-print-directory CUDA=0 SAN=coverage tests
	@find build/coverage -name '*.gcda' -delete
	@BIN=build/coverage/bin scripts/check || echo "make coverage: of tests of which some failed"
	@scripts/coverage build/coverage

bench: all tests
	@BIN=$(abspath $(BIN)) scripts/bench

demo: all
	@BIN=$(abspath $(BIN)) scripts/demo

lint: $(GEN_HDR)
	@CFLAGS="$(CFLAGS)" scripts/lint

man: $(BIN)/sluice $(BIN)/sluice-broker
	@scripts/make-man $(BIN) $(O)/man

clean:
	rm -rf build

help:
	@sed -n '3,15s/^# \{0,1\}//p' Makefile

-include $(shell find $(sort $(OBJ) $(PLUGIN_OBJ) $(SIMT_OBJ) $(SIMT_OBJ)-checked) -name '*.d' 2>/dev/null)
