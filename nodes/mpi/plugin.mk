# The MPI plug-in (nodes/plugin.h). Included by the Makefile. `make mpi MPICC=...` builds it with the
# compiler wrapper of the MPI that is to start the programs; nothing else builds it.
MPICC      ?= mpicc
MPI_PLUGIN := $(PLAIN)/lib/libsluice_mpi.so

# Made anew each time: MPICC may be another one than the last time.
.PHONY: mpi
mpi:
	@command -v $(firstword $(MPICC)) >/dev/null || \
	    { echo "make mpi: there is no $(firstword $(MPICC)): name the wrapper of your MPI with MPICC=, or install one (libopenmpi-dev, libmpich-dev)" >&2; exit 1; }
	@mkdir -p $(dir $(MPI_PLUGIN))
	@$(if $(V),,echo "  MPICC   $(MPI_PLUGIN)")
	$(Q)$(MPICC) $(CSTD) -O2 -g $(WARN) -fPIC -fvisibility=hidden -shared -I. -Wl,-soname,libsluice_mpi.so \
	    nodes/mpi/plugin.c -o $(MPI_PLUGIN).part && mv $(MPI_PLUGIN).part $(MPI_PLUGIN)
