#!/bin/sh
# In one library an edge whose weight is 0 exists or not by the algorithm: of a sparse matrix that
# stores the 0, scipy 1.17.1 goes along it for shortest paths and components, and its minimum
# spanning tree comes back without it, as if the graph were not connected.
# Seen: 1 component of 3 vertices, a way of length 1 from 0 to 2, and a spanning "tree" of 1 edge.
exec "$(dirname "$0")/with" scipy==1.17.1 numpy==2.4.6 <<'PYTHON'
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree, shortest_path

graph = csr_array((np.array([0.0, 1.0]), (np.array([0, 1]), np.array([1, 2]))), shape=(3, 3))
components = connected_components(graph, directed=False)[0]
length = shortest_path(graph)[0, 2]
tree = minimum_spanning_tree(graph)
print(f"{graph.nnz} edges, {components} component, 0 to 2 in {length}, tree of {tree.nnz} edge")
assert (graph.nnz, components, length, tree.nnz) == (2, 1, 1.0, 1)
PYTHON
