# What leaves this folder: make bundle. Included by the Makefile.

# The archive has the programs once more, linked so that they find libraries beside them (RPATH and
# not RUNPATH, which would not hold for the libraries of libraries), without debugging information.
BUNDLED    := $(O)/bundle/programs
BUNDLE_BIN := $(patsubst %,$(BUNDLED)/%,$(NAMES) $(DRIVERS))
LIB_AHEAD   = $(if $(findstring /tests/bench/,$@),../../../lib,$(if $(findstring /tests/,$@),../../lib,../lib))
$(call made_in,$(BUNDLED),$(NAMES) $(DRIVERS))
$(BUNDLE_BIN): LINK_MORE = -Wl,-rpath,'$$ORIGIN/$(LIB_AHEAD):$$ORIGIN/$(LIB_AHEAD)/gcc' -Wl,--disable-new-dtags \
                           -Wl,--strip-debug
$(BUNDLE_BIN):
	$(link)

.PHONY: bundle
bundle: $(BUNDLE_BIN) $(PLUGIN_GOAL)
	@scripts/bundle $(BUNDLED) $(PLUGIN) $(O)

ifneq ($(SAN),)
ifneq ($(filter bundle,$(MAKECMDGOALS)),)
$(error make bundle: not of a build with SAN=$(SAN))
endif
endif
