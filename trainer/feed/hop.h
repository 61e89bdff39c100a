// hop.h - the edges of a block's hop as a CSR view for kernels.
#ifndef SL_TRAINER_FEED_HOP_H
#define SL_TRAINER_FEED_HOP_H

#include "common/arena/block.h"
#include "kernels/kernels.h"

struct sl_csr_view sl_hop_csr(struct sl_block_view block, uint32_t hop);

#endif
