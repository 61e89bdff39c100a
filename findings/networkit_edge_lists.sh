#!/bin/sh
# NetworKit 11.3: EdgeListReader drops repeated edges, of directed graphs too, and says nothing; with
# continuous=False it numbers the vertices anew. A self-loop counts once in a vertex's degree (twice in
# networkx and igraph).
# Seen: 5 lines, of which one stands twice, are 4 directed edges; ids 5 and 6 become 3 and 4.
exec "$(dirname "$0")/with" networkit==11.3 <<'PYTHON'
import networkit

with open("edges.txt", "w") as out:
    out.write("0 1\n1 0\n0 1\n2 2\n5 6\n")
directed = networkit.graphio.EdgeListReader(" ", 0, directed=True).read("edges.txt")
print(f"5 lines: {directed.numberOfEdges()} directed edges of {directed.numberOfNodes()} vertices")
assert directed.numberOfEdges() == 4 and directed.numberOfNodes() == 7
again = networkit.graphio.EdgeListReader(" ", 0, directed=True, continuous=False).read("edges.txt")
print(f"continuous=False: {sorted(again.iterEdges())}")
assert again.numberOfNodes() == 5 and again.hasEdge(3, 4)
assert again.degree(2) == 1
PYTHON
