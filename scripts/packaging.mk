# What leaves this folder: make install, uninstall, deb, bundle, wheel. Included by the Makefile.
PREFIX  ?= /usr/local
DESTDIR ?=

.PHONY: install uninstall deb bundle wheel
install: all
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install $(BIN) $(LIB) $(PLUGIN)

uninstall:
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install --remove

deb: all
	@scripts/deb $(BIN) $(LIB) $(PLUGIN) $(O)

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
BUNDLE_LIB := $(O)/bundle/lib/$(SONAME)
$(BUNDLE_LIB): LINK_MORE = -Wl,-rpath,'$$ORIGIN:$$ORIGIN/gcc' -Wl,--disable-new-dtags -Wl,--strip-debug
$(BUNDLE_LIB): $(OF_LIBSLUICE)
	$(link_libsluice)

bundle: $(BUNDLE_BIN) $(BUNDLE_LIB) $(PLUGIN_GOAL)
	@scripts/bundle $(BUNDLED) $(BUNDLE_LIB) $(PLUGIN) $(O)

WHEEL_BIN := $(NAMES:%=$(BUNDLED)/%)
wheel: $(WHEEL_BIN) $(BUNDLE_LIB) $(PLUGIN_GOAL)
	@scripts/wheel $(BUNDLE_LIB) $(PLUGIN) $(O) $(WHEEL_BIN)

# Of programs with a sanitizer there is none of them.
ifneq ($(SAN),)
ifneq ($(filter deb bundle wheel,$(MAKECMDGOALS)),)
$(error make $(filter deb bundle wheel,$(MAKECMDGOALS)): not of a build with SAN=$(SAN))
endif
endif
