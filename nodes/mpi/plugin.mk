# The MPI plug-in (nodes/plugin.h). Included by the Makefile. `make mpi MPICC=...` builds it with the
# compiler wrapper of the MPI that is to start the programs; nothing else builds it.
MPICC      ?= mpicc
MPI_PLUGIN := $(PLAIN)/lib/libsluice_mpi.so

# Made anew each time: MPICC may be another one than the last time.
.PHONY: mpi
mpi:
	@mkdir -p $(dir $(MPI_PLUGIN))
	@$(if $(V),,echo "  MPICC   $(MPI_PLUGIN)")
	$(Q)CFLAGS='-O2 -g $(WARN)' nodes/mpi/build '$(MPICC)' $(MPI_PLUGIN)
