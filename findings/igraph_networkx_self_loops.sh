#!/bin/sh
# A self-loop is 1 in networkx's adjacency matrix and 2 in igraph's, of the same undirected graph:
# its degree is 2 in both. An adjacency matrix with 1 on the diagonal that goes through igraph 1.0.0
# comes back changed, and networkx 3.6.1 makes a weight of 2 of it.
# Seen: [[1 1] [1 0]] in, [[2 1] [1 0]] out.
exec "$(dirname "$0")/with" igraph==1.0.0 networkx==3.6.1 numpy==2.4.6 <<'PYTHON'
import igraph
import networkx
import numpy as np

matrix = np.array([[1, 1], [1, 0]])
by_networkx = networkx.from_numpy_array(matrix)
by_igraph = igraph.Graph.Adjacency(matrix, mode="undirected")
out = np.array(by_igraph.get_adjacency().data)
print("degrees of vertex 0:", by_networkx.degree(0), by_igraph.degree(0))
print("matrices:", networkx.to_numpy_array(by_networkx).tolist(), out.tolist())
assert by_networkx.degree(0) == by_igraph.degree(0) == 3
assert (networkx.to_numpy_array(by_networkx) == matrix).all()
assert out.tolist() == [[2, 1], [1, 0]]
assert networkx.from_numpy_array(out)[0][0]["weight"] == 2
PYTHON
