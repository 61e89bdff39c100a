# sluice - `make` builds, `make demo` shows it working, `make check` tests it.
#
#   make                 build/bin/{sluice,sluice-broker,sluice-sampler,sluice-trainer}
#   make demo            install what is missing, build, generate a graph, train on it
#   make check           install what is missing, build, run every test   [SAN=address|undefined|thread]
#   make bench           ceilings of this machine and what sluice reaches of them
#   make lint            format, static analysis, header and layer checks
#   make clean
#
# Variables: SAN, CC, O (build directory), CUDA=auto|0|1, V=1 (show commands).

SAN   ?=
CUDA  ?= auto
O     ?= build$(if $(SAN),/$(SAN))
BIN   := $(O)/bin
OBJ   := $(O)/obj
LIB   := $(O)/lib
GEN   := $(O)/gen
Q     := $(if $(V),,@)

.DEFAULT_GOAL := all

ifeq ($(CUDA),1)
$(error CUDA=1: this version has no CUDA back end; build with CUDA=auto or CUDA=0)
endif

# ---- set-up: everything but `clean` and `setup` needs the packages ------------------------------
# A stamp keeps the second time quick; scripts/setup checks the package list against it.
GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out clean help,$(GOALS)),)
SETUP_STATUS := $(shell scripts/setup >&2 && echo ok)
ifneq ($(SETUP_STATUS),ok)
$(error set-up failed; the message above says what is missing)
endif
endif

PKGS := libuv libzmq libprotobuf-c libcjson hwloc zlib libxxhash libsodium
ifneq ($(filter-out clean help,$(GOALS)),)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
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
else ifneq ($(SAN),)
$(error SAN=$(SAN): wanted address, undefined or thread)
endif
CFLAGS   = $(CSTD) $(OPT) $(WARN) $(SANFLAGS) -I. -I$(GEN) $(PKG_CFLAGS)
ifeq ($(shell uname -m),x86_64)
OPT += -mprefer-vector-width=512
endif
LDFLAGS  = $(OPT) $(SANFLAGS)
LDLIBS   = $(PKG_LIBS) -ldnnl -lm -lpthread -ldl

# ---- libraries: a folder is a library; the closure of what it may see stands beside it -----------
SRC_base    := $(wildcard common/base/*.c)
SRC_data    := $(wildcard common/data/*.c)
SRC_ipc     := $(wildcard common/ipc/*.c)
SRC_device  := $(wildcard common/device/*.c)
SRC_kernels := $(wildcard kernels/*.c kernels/ref/*.c kernels/cpu/*.c)
SRC_config  := $(wildcard config/*.c)
SRC_sampler := $(filter-out sampler/main.c,$(wildcard sampler/*.c))
SRC_trainer := $(filter-out trainer/main.c,$(wildcard trainer/*.c))
SRC_broker  := $(filter-out broker/main.c,$(wildcard broker/*.c))
SRC_cli     := $(filter-out broker/cli/main.c,$(wildcard broker/cli/*.c))
LIBS        := base data ipc device kernels config sampler trainer broker cli

NEED_base    := base
NEED_data    := data base
NEED_ipc     := ipc base
NEED_device  := device base
NEED_kernels := kernels device base
NEED_config  := config device base
NEED_sampler := sampler kernels config data ipc device base
NEED_trainer := trainer kernels config data ipc device base
NEED_broker  := broker config data ipc device base
NEED_cli     := cli broker config data ipc device base

libs_of = $(patsubst %,$(LIB)/libsl_%.a,$(NEED_$(1)))

GEN_SRC := $(GEN)/common/ipc/control.pb-c.c
GEN_HDR := $(GEN)/common/ipc/control.pb-c.h

# An archive is also made again when it is of other sources than there are now, whatever their times
# (a checkout brings and takes files): NAME.sources has the list it was made of.
define library
OBJ_$(1) := $$(patsubst %.c,$(OBJ)/%.o,$$(SRC_$(1)))
ifneq ($$(strip $$(file <$(LIB)/$(1).sources)),$$(SRC_$(1)))
$(LIB)/libsl_$(1).a: always
endif
$(LIB)/libsl_$(1).a: $$(OBJ_$(1)) $(if $(filter ipc,$(1)),$(OBJ)/control.pb-c.o)
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^) && echo '$$(SRC_$(1))' >$(LIB)/$(1).sources
endef
.PHONY: always
$(foreach l,$(LIBS),$(eval $(call library,$(l))))

$(OBJ)/%.o: %.c | $(GEN_HDR)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CC      $<")
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(GEN_SRC) $(GEN_HDR) &: common/ipc/control.proto
	@mkdir -p $(GEN)/common/ipc
	$(Q)protoc-c --proto_path=. --c_out=$(GEN) $<

$(OBJ)/control.pb-c.o: $(GEN_SRC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) -O2 $(SANFLAGS) -I$(GEN) $(PKG_CFLAGS) -c $< -o $@

# ---- programs -----------------------------------------------------------------------------------
PROGRAMS := $(BIN)/sluice $(BIN)/sluice-broker $(BIN)/sluice-sampler $(BIN)/sluice-trainer
$(BIN)/sluice:         $(OBJ)/broker/cli/main.o $(call libs_of,cli)
$(BIN)/sluice-broker:  $(OBJ)/broker/main.o     $(call libs_of,broker)
$(BIN)/sluice-sampler: $(OBJ)/sampler/main.o    $(call libs_of,sampler)
$(BIN)/sluice-trainer: $(OBJ)/trainer/main.o    $(call libs_of,trainer)
$(PROGRAMS):
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

.PHONY: all
all: $(PROGRAMS)

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

# tests/kernels: one driver (test / grad / perf); tests/stress, tests/bench: one program a file,
# linked with everything a sampler and a trainer may see.
ALL_LIBS := $(patsubst %,$(LIB)/libsl_%.a,cli broker sampler trainer kernels config data ipc device base)
KERNEL_TEST := $(BIN)/tests/kernels
$(KERNEL_TEST): $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/kernels/*.c)) $(call libs_of,kernels)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

TOOL_SRC := $(wildcard tests/stress/*.c tests/bench/*.c)
TOOL_BIN := $(patsubst tests/%.c,$(BIN)/tests/%,$(TOOL_SRC))
$(TOOL_BIN): $(BIN)/tests/%: $(OBJ)/tests/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LD      $@")
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

.PHONY: tests check bench demo lint clean help
tests: $(UNIT_BIN) $(KERNEL_TEST) $(TOOL_BIN)

check: all tests
	@BIN=$(abspath $(BIN)) SAN=$(SAN) scripts/check

bench: all tests
	@BIN=$(abspath $(BIN)) scripts/bench

demo: all
	@BIN=$(abspath $(BIN)) scripts/demo

lint: $(GEN_HDR)
	@CFLAGS="$(CFLAGS)" scripts/lint

clean:
	rm -rf build

help:
	@sed -n '3,10s/^# \{0,1\}//p' Makefile

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
