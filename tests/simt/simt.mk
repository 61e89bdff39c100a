# The plug-in for a GPU that is made of fibres (README.md beside this file). Included by the Makefile,
# behind kernels/cuda/plugin.mk.
#
# The same sources, compiled by g++ with tests/simt in place of CUDA. The checked one sees each load
# and store of the kernels: the compiler's calls for ThreadSanitizer end in tests/simt/check.cc.
SIMT_CU       := $(PLUGIN_CU) $(wildcard tests/simt/*.cu)
SIMT_OBJ      := $(PLAIN)/obj/simt
SIMT_RUNTIME  := $(patsubst %.cc,$(SIMT_OBJ)/%.o,$(wildcard tests/simt/*.cc))
SIMT_HOST     := $(PLUGIN_CC:%.cc=$(SIMT_OBJ)/%.cc.o) $(PLUGIN_C_OBJ)
SIMT_PLUGIN   := $(PLAIN)/lib/libsluice_cuda_simt.so
SIMT_CHECKED  := $(PLAIN)/lib/libsluice_cuda_simt_checked.so
# Where the processor multiplies and adds at once, fmaf() is that instruction and not a call; nothing else is fused.
SIMT_FMA      := $(if $(shell grep -m1 -w fma /proc/cpuinfo),-mfma -ffp-contract=off)
SIMT_CXXFLAGS := -std=c++17 -O1 -g1 $(SIMT_FMA) -fPIC -fno-gnu-unique -fdata-sections -fvisibility=hidden -fno-math-errno -Wall -Wextra \
                 -Wno-unused-parameter -Wno-unknown-pragmas -Wno-maybe-uninitialized \
                 $(if $(CI),-Werror) -DSL_SIMT -I.
SIMT_WATCH    := -fsanitize=thread --param=tsan-distinguish-volatile=1 \
                 --param=tsan-instrument-func-entry-exit=0 -DSIMT_CHECKED
SIMT_LINK     := -shared -static-libgcc -static-libstdc++ -Wl,-Bsymbolic,--exclude-libs,ALL \
                 -Wl,--no-undefined -Wl,-T,tests/simt/shared.ld

$(SIMT_OBJ)/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  SIMT    $<")
	$(Q)$(CCACHE) $(CXX) -x c++ $(SIMT_CXXFLAGS) -MMD -MP -c $< -o $@

$(SIMT_OBJ)-checked/%.o: %.cu
	@mkdir -p $(@D)
	@$(if $(V),,echo "  SIMT    $< (checked)")
	$(Q)$(CCACHE) $(CXX) -x c++ $(SIMT_CXXFLAGS) $(SIMT_WATCH) -MMD -MP -c $< -o $@

$(SIMT_OBJ)/%.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CCACHE) $(CXX) $(SIMT_CXXFLAGS) -O2 -MMD -MP -c $< -o $@

$(SIMT_OBJ)/%.cc.o: %.cc
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CXX     $<")
	$(Q)$(CCACHE) $(CXX) $(SIMT_CXXFLAGS) -O2 -MMD -MP -c $< -o $@

$(SIMT_PLUGIN): $(SIMT_CU:%.cu=$(SIMT_OBJ)/%.o) $(SIMT_RUNTIME) $(SIMT_HOST)
$(SIMT_CHECKED): $(SIMT_CU:%.cu=$(SIMT_OBJ)-checked/%.o) $(SIMT_RUNTIME) $(SIMT_HOST)
$(SIMT_PLUGIN) $(SIMT_CHECKED): tests/simt/shared.ld
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LINK    $@")
	$(Q)$(CXX) $(SIMT_LINK) $(filter %.o,$^) -ldl -lpthread -lm -o $@.part && mv $@.part $@

# What stands in for cuBLASLt, by the library's own name.
SIMT_LT := $(PLAIN)/lib/standin/libcublasLt.so.13
$(SIMT_LT): $(patsubst %.cc,$(SIMT_OBJ)/%.o,$(wildcard tests/simt/standin/*.cc))
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LINK    $@")
	$(Q)$(CXX) -shared -static-libgcc -static-libstdc++ -Wl,--exclude-libs,ALL,--no-undefined $^ -o $@.part && \
	    mv $@.part $@

# Tests look beside the programs.
SIMT := $(patsubst $(PLAIN)/%,$(O)/%,$(SIMT_PLUGIN) $(SIMT_CHECKED) $(SIMT_LT))
ifneq ($(PLAIN),$(O))
$(SIMT): $(LIB)/%: $(PLAIN)/lib/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
endif

.PHONY: simt
simt: $(SIMT)
