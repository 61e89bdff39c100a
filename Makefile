# sluice - `make` builds, `make demo` shows it working, `make check` tests it.
#
#   make                 build/bin/sluice and the programs that it starts, build/lib/libsluice.so.0
#   make demo            install what is missing, build, generate a graph, train on it
#   make check           install what is missing, build, run the tests    [SAN=address|undefined|thread]
#   make check-all       the same with every case of every test
#   make install         programs, libsluice, manual pages, completion, the daemon's unit  [PREFIX=/usr/local, DESTDIR]
#   make uninstall       takes them away
#   make deb             the same as a Debian package in build
#   make mpi             the plug-in for several nodes, against your MPI  [MPICC=mpicc]
#   make bundle          an archive that runs where nothing can be installed, with the CUDA plug-in
#   make wheel           the Python package with programs and libraries inside, for pip
#   make bench           ceilings of this machine and what sluice reaches of them
#   make fuzz, make soak what reads foreign bytes, and a daemon, for hours  [FUZZ_SECONDS, SOAK]
#   make coverage        lines that the tests run, by folder
#   make lint            format, static analysis, header and layer checks
#   make man             manual pages in build/man, from what --help says
#   make clean
#
# Variables: SAN, CC, CCACHE=ccache (compilations are kept), O (build directory), CUDA=auto|0|1, NVCC,
# CUDA_ARCHS, V=1 (show commands). Without -j as many commands run at once as there are processors.
#
# What is built beside the programs stands where its sources are: kernels/cuda/plugin.mk, nodes/mpi/plugin.mk, tests/tests.mk,
# tests/simt/simt.mk, tests/fuzz/fuzz.mk, scripts/packaging.mk. folders.mk says who may see whom.

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
# A stamp keeps the second time quick; scripts/setup checks the package list against it. A goal is asked
# for what it needs alone: the plug-in for nvcc, which says itself what it misses.
GOALS := $(filter-out clean help uninstall plugin mpi,$(or $(MAKECMDGOALS),all))
ifneq ($(GOALS),)
CHECKS  := $(filter check check-all,$(GOALS))
TESTING := $(filter tests check check-all thread-tests rest-tests coverage bench lint fuzz soak bundle $(BIN)/tests/%,$(GOALS))
INSTALL := $(and $(filter check check-all demo,$(GOALS)),$(if $(findstring n,$(firstword -$(MAKEFLAGS))),,yes))
LISTS   := scripts/packages $(if $(TESTING),scripts/packages.tests) $(if $(filter deb,$(GOALS)),scripts/packages.deb) \
           $(if $(CHECKS),--maybe scripts/packages.check scripts/packages.deb)
ifneq ($(shell scripts/setup $(if $(INSTALL),install,look) $(LISTS) >&2 && echo ok),ok)
$(error set-up failed; the message above says what is missing)
endif
endif

PKGS := liburing libuv libzmq libprotobuf-c libcjson hwloc zlib yaml-0.1 libxxhash libsodium ncursesw
# Opened at their first use (common/base/late_library.h): no program is linked with these.
LATE := libzip libmicrohttpd
ifneq ($(GOALS),)
PKG_CFLAGS := $(filter-out -D_%,$(shell pkg-config --cflags $(PKGS) $(LATE)))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS))
endif
# Of test programs alone, so not asked for before one is linked, and then once.
CHECK_LIBS = $(eval CHECK_LIBS := $(shell pkg-config --libs check))$(CHECK_LIBS)

CSTD    := -std=c17 -D_GNU_SOURCE
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wvla -Wno-unused-parameter $(if $(CI),-Werror)
# In CI nobody looks at variables in a debugger, whose tracking is a third of the compiler's time.
OPT     := -O3 $(if $(CI),-g1,-g) -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd
SANFLAGS :=
ifeq ($(SAN),address)
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DSL_SANITIZED
OPT := -O1 -g1 -fno-math-errno -fopenmp-simd
else ifeq ($(SAN),undefined)
SANFLAGS := -fsanitize=undefined -fno-sanitize-recover=undefined -DSL_SANITIZED
else ifeq ($(SAN),thread)
SANFLAGS := -fsanitize=thread -Wno-tsan -DSL_SANITIZED
OPT := -O1 -g1 -fno-math-errno -fopenmp-simd
else ifeq ($(SAN),coverage)
SANFLAGS := --coverage -fprofile-update=atomic
else ifneq ($(SAN),)
$(error SAN=$(SAN): wanted address, undefined or thread)
endif
# A program is linked with what it calls alone: of an archive the objects, of those the functions, and
# of the libraries those that anything is left of.
SECTIONS := -ffunction-sections -fdata-sections
# Objects are for programs and for libsluice alike: what is hidden is called and inlined as ever, and
# in a program the linker turns the rest back into direct addresses.
PIC      := -fPIC -fvisibility=hidden
CFLAGS   = $(CSTD) $(OPT) $(SECTIONS) $(WARN) $(SANFLAGS) -I. -Iinclude -I$(GEN) $(PKG_CFLAGS)
ifeq ($(shell uname -m),x86_64)
OPT += -mprefer-vector-width=512
endif
LDFLAGS  = $(OPT) $(SANFLAGS) -Wl,--gc-sections,--as-needed
LDLIBS   = $(PKG_LIBS) -lm -lpthread -ldl

# ---- libraries: a folder is a library; folders.mk says which it may see --------------------------
# NEEDS_ is a library and all that it uses, which stands above it in the list.
folder = $(eval LIBS := $(1) $(LIBS))$(eval FOLDER_$(1) := $(2))$(eval NEEDS_$(1) := $(sort $(1) $(foreach u,$(3),$(NEEDS_$(u)))))
include folders.mk
$(foreach l,$(LIBS),$(eval SRC_$(l) := $(filter-out %/main.c,$(wildcard $(FOLDER_$(l))/*.c))))
SRC_kernels += $(wildcard kernels/ref/*.c kernels/cpu/*.c)

# What a library needs to be linked, users before what they use, as the linker wants it.
libs_of = $(patsubst %,$(LIB)/libsl_%.a,$(filter $(foreach l,$(1),$(NEEDS_$(l))),$(LIBS)))

# Messages: a .proto is compiled into the library that it stands in.
PROTO_bus    := common/bus/control.proto
PROTO_rundir := $(wildcard broker/rundir/tfevent.proto)
PROTOS  := $(PROTO_bus) $(PROTO_rundir)
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

# What commands, messages and keys are made of computes nothing that anybody waits for but the compiler.
CONTROL := text schema nodes config bus link log placement workers sharding meter scheduler rundir telemetry broker page http daemon top cli
$(foreach l,$(filter-out $(LIBS),$(CONTROL)),$(error CONTROL: folders.mk has no library $(l)))
$(foreach l,$(CONTROL),$(OBJ_$(l))): OPT := $(patsubst -O%,-O$(if $(SAN),0,1),$(OPT))

# Objects of other flags than these cannot be linked with new ones: all are made again.
OF_OBJECTS := $(CSTD) $(OPT) $(SECTIONS) $(SANFLAGS) $(PIC)
ifneq ($(strip $(file <$(OBJ)/flags)),$(strip $(OF_OBJECTS)))
$(OBJ)/flags: always
endif
$(OBJ)/flags:
	@mkdir -p $(@D)
	@echo '$(OF_OBJECTS)' >$@

$(OBJ)/%.o: %.c $(OBJ)/flags | $(GEN_HDR)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CC      $<")
	$(Q)$(CCACHE) $(CC) $(CFLAGS) $(PIC) -MMD -MP -c $< -o $@

# Files that are in an object through .incbin, which the compiler's dependencies do not know of.
$(OBJ)/broker/page/files.o: $(wildcard broker/page/*.html broker/page/*.css broker/page/*.js)
$(OBJ)/cli/completion.o: $(wildcard scripts/completion/*)

$(GEN)/%.pb-c.c $(GEN)/%.pb-c.h &: %.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=. --c_out=$(GEN) $<

$(OBJ)/%.pb-c.o: $(GEN)/%.pb-c.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CC) $(CSTD) -O2 $(SECTIONS) $(PIC) $(SANFLAGS) -I$(GEN) $(PKG_CFLAGS) -c $< -o $@

# ---- programs -----------------------------------------------------------------------------------
# A rule says what a program is made of; all are linked alike. FROM_<program> is for those that are
# linked once more for the archive.
NAMES    := sluice sluice-broker sluice-sampler sluice-trainer sluice-link
PROGRAMS := $(NAMES:%=$(BIN)/%)
FROM_sluice         := $(OBJ)/cli/main.o $(call libs_of,cli)
FROM_sluice-broker  := $(OBJ)/broker/main.o $(call libs_of,daemon)
FROM_sluice-sampler := $(OBJ)/sampler/main.o $(call libs_of,sampler)
FROM_sluice-trainer := $(OBJ)/trainer/main.o $(call libs_of,trainer)
FROM_sluice-link    := $(OBJ)/link/main.o $(call libs_of,link)
made_in = $(foreach p,$(2),$(eval $(1)/$(p): $(FROM_$(p))))
$(call made_in,$(BIN),$(NAMES))

define link
@mkdir -p $(@D)
@$(if $(V),,echo "  LD      $@")
$(Q)$(CC) $(LDFLAGS) $^ $(LINK_MORE) $(LDLIBS) -o $@
endef
$(PROGRAMS):
	$(link)

# ---- libsluice: include/sluice.h for programs of others (loader/README.md) ------------------------
# Nothing of it is seen but what the map names. It stays loaded until the process ends: its threads are
# in it.
SONAME    := libsluice.so.0
LIBSLUICE := $(LIB)/$(SONAME)
OF_LIBSLUICE := loader/libsluice.map $(OBJ_loader) $(call libs_of,loader)
# What is left of the libraries below it needs these and no others: -z defs would say so. Nothing is
# left out under a sanitizer, which registers each object's variables.
LIBSLUICE_PKGS := liburing libzmq libprotobuf-c libcjson hwloc libxxhash
ifneq ($(GOALS),)
LIBSLUICE_LIBS := $(shell pkg-config --libs $(LIBSLUICE_PKGS)) -lm -lpthread -ldl
endif
LIBSLUICE_LINK := -shared -Wl,-soname,$(SONAME),--version-script=loader/libsluice.map,--exclude-libs,ALL \
                  -Wl,-z,nodelete$(if $(SAN),,$(comma)-z$(comma)defs)
define link_libsluice
@mkdir -p $(@D)
@$(if $(V),,echo "  LD      $@")
$(Q)$(CC) $(LDFLAGS) $(LIBSLUICE_LINK) $(LINK_MORE) $(filter %.o %.a,$^) $(LIBSLUICE_LIBS) -o $@
$(Q)ln -sf $(SONAME) $(@D)/libsluice.so
endef
$(LIBSLUICE): $(OF_LIBSLUICE)
	$(link_libsluice)

.PHONY: all tests rest-tests check check-all coverage bench demo lint man clean help
all: $(PROGRAMS) $(LIBSLUICE)

include kernels/cuda/plugin.mk nodes/mpi/plugin.mk tests/tests.mk tests/simt/simt.mk tests/fuzz/fuzz.mk \
        tests/sanitizers/thread.mk scripts/packaging.mk

# ---- what one does with it ----------------------------------------------------------------------
tests: $(PROGRAMS) $(TEST_PROGRAMS) $(FUZZ_BIN) $(SIMT) $(LIBSLUICE) $(if $(SAN),,$(BUNDLE_BIN) $(BUNDLE_LIB))

# Without the unit tests and fuzzers that `scripts/check --tier rest` leaves to a sanitizer.
rest-tests: $(PROGRAMS) $(filter-out $(UNIT_BIN),$(TEST_PROGRAMS)) $(REST_UNIT) $(SIMT) $(LIBSLUICE) $(BUNDLE_BIN) $(BUNDLE_LIB)

check: tests
	@BIN=$(abspath $(BIN)) SAN=$(SAN) scripts/check

check-all: tests
	@BIN=$(abspath $(BIN)) SAN=$(SAN) scripts/check --tier whole

# Which lines the quick tier runs, by folder.
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
	@sed -n '3,/^#$$/s/^# \{0,1\}//p' Makefile

-include $(shell find $(sort $(OBJ) $(PLUGIN_OBJ) $(SIMT_OBJ) $(SIMT_OBJ)-checked) -name '*.d' 2>/dev/null)
