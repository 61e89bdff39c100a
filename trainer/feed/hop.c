#include "trainer/feed/hop.h"

struct sl_csr_view sl_hop_csr(struct sl_block_view block, uint32_t hop)
{
    return (struct sl_csr_view){
        .n_dst = block.header->n_nodes[hop],
        .n_src = block.header->n_nodes[hop + 1],
        .n_edges = block.header->hop[hop].n_edges,
        .indptr = sl_view_indptr(block, hop),
        .indices = sl_view_indices(block, hop),
    };
}
