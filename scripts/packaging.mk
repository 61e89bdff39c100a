# What leaves this folder: make install, uninstall, deb, bundle. Included by the Makefile.
PREFIX  ?= /usr/local
DESTDIR ?=

.PHONY: install uninstall deb bundle
install: all
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install $(BIN) $(PLUGIN)

uninstall:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install --remove

deb: all
	@scripts/deb $(BIN) $(PLUGIN) $(O)

# The archive has the programs once more, and what gpu_suite runs, linked so that they find libraries
# beside them (RPATH and not RUNPATH, which would not hold for the libraries of libraries), without
# debugging information.
SUITE_TESTS  := tests/test_sampler_gpu tests/test_trainer_cuda
BUNDLE_NAMES := $(NAMES) $(DRIVERS) $(SUITE_TESTS)
BUNDLED      := $(O)/bundle/programs
BUNDLE_BIN   := $(BUNDLE_NAMES:%=$(BUNDLED)/%)
UP            = ..
$(patsubst %,$(BUNDLED)/%,tests/kernels $(SUITE_TESTS)): UP = ../..
$(BUNDLED)/tests/bench/kernels: UP = ../../..
$(call made_in,$(BUNDLED),$(BUNDLE_NAMES))
$(BUNDLE_BIN): LINK_MORE = -Wl,-rpath,'$$ORIGIN/$(UP)/lib:$$ORIGIN/$(UP)/lib/gcc' -Wl,--disable-new-dtags \
                           -Wl,--strip-debug $(if $(findstring /tests/test_,$@),$(CHECK_LIBS))
$(BUNDLE_BIN):
	$(link)

bundle: $(BUNDLE_BIN) $(PLUGIN_GOAL)
	@scripts/bundle $(BUNDLED) $(PLUGIN) $(O)

# Of programs with a sanitizer there is neither.
ifneq ($(SAN),)
ifneq ($(filter deb bundle,$(MAKECMDGOALS)),)
$(error make $(filter deb bundle,$(MAKECMDGOALS)): not of a build with SAN=$(SAN))
endif
endif
