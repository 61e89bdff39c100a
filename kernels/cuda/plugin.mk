# The CUDA plug-in (README.md beside this file). Included by the Makefile.
#
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
# last one at their first use and keep it. -lineinfo changes no code: it lets compute-sanitizer and the
# profilers name the lines of sources.
CUDA_ARCHS ?= 80 90
CUDA_ARCH  := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
              -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
CUDA_HOME  := $(patsubst %/bin/nvcc,%,$(NVCC))
NVCCFLAGS  := -std=c++17 -O3 -lineinfo $(CUDA_ARCH) -cudart static -I. \
              -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wno-unused-parameter$(if $(CI),$(comma)-Werror)
PLUGIN_CXXFLAGS := -std=c++17 -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter \
                   $(if $(CI),-Werror) -I. -isystem $(CUDA_HOME)/include
PLUGIN_CFLAGS   := $(CSTD) -O2 -g -fPIC -fvisibility=hidden $(WARN) -I.

$(PLUGIN_OBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  NVCC    $<")
	$(Q)$(CCACHE) $(NVCC) $(NVCCFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

$(PLUGIN_OBJ)/%.cc.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CCACHE) $(CXX) $(PLUGIN_CXXFLAGS) -MMD -MP -c $< -o $@

$(PLUGIN_OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CCACHE) $(CC) $(PLUGIN_CFLAGS) -MMD -MP -c $< -o $@

# Only the entry is exported, and nothing of the program's is taken in its place.
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

# What ptxas says of every kernel, a line for each GPU: stack and spills, registers, shared memory.
.PHONY: cuda-figures
cuda-figures:
	@mkdir -p $(O)
	@for file in $(PLUGIN_CU); do $(NVCC) $(NVCCFLAGS) -Xptxas -v -c $$file -o $(O)/cuda-figures.o 2>&1 | \
	    awk -F\' '/entry function/ {kernel = $$4 " " $$2} /bytes spill/ {spills = $$0} \
	        /: Used/ {sub(/.*: Used/, ""); print kernel ":" spills ", " $$0}' | c++filt; done
