"""Models of graphs of several types from torch_geometric's classes, as sluice names their tensors:
for scripts/check_pyg.py and tests/golden/make_pyg_typed.py."""
import torch
import torch_geometric
from torch_geometric.nn import (
    BatchNorm,
    GATConv,
    GATv2Conv,
    HeteroConv,
    HGTConv,
    LayerNorm,
    RGCNConv,
    SAGEConv,
)
from torch_geometric.nn.module_dict import ModuleDict

# With pyg-lib's segment_matmul RGCNConv's mean is over the edges of all relations together.
torch_geometric.backend.use_segment_matmul = False

ACTIVATIONS = {
    "relu": torch.nn.functional.relu,
    "elu": torch.nn.functional.elu,
    "leaky_relu": torch.nn.functional.leaky_relu,  # slope 0.01
}
KINDS = ("rsage", "rgat", "rgatv2", "rgcn", "hgt")
ATTENTION = {"rgat": GATConv, "rgatv2": GATv2Conv}


def norm_of(kind, dim):
    return BatchNorm(dim) if kind == "batch" else LayerNorm(dim, mode="node")


class TypedModel(torch.nn.Module):
    """`model` of a job's resolved configuration, on types {name: width of features} and relations
    [(source, name, target)]; the first type is the one with labels. A width of 0 is a type without
    features, whose x is torch.ones(n, 1). edge_widths {relation: width} are of the features of
    edges, of relations that have some."""

    def __init__(self, model, types, relations, outputs, edge_widths=None):
        super().__init__()
        self.edge_widths = edge_widths if model.get("edge_features") else {}
        types = {t: dim or 1 for t, dim in types.items()}
        self.kind, self.hidden, self.layers = model["kind"], model["hidden"], model["layers"]
        self.act = ACTIVATIONS[model.get("activation", "relu")]
        self.relations, self.labelled = relations, next(iter(types))
        targets = {r[2] for r in relations}
        norm = model.get("norm", "none")
        self.convs = torch.nn.ModuleList(
            self.layer(model, types if i == 0 else dict.fromkeys(types, self.hidden))
            for i in range(self.layers)
        )
        if norm != "none":
            self.norms = torch.nn.ModuleList(
                ModuleDict(
                    {t: norm_of(norm, self.hidden) for t in types if t in targets or self.whole}
                )
                for _ in range(self.layers - 1)
            )
        if self.enters:
            self.lin_dict = ModuleDict(
                {t: torch.nn.Linear(dim, self.hidden) for t, dim in types.items()}
            )
        self.lin = torch.nn.Linear(self.hidden, outputs)
        self.normalises = norm != "none"

    @property
    def whole(self):
        """Whether a layer sees all types as one matrix."""
        return self.kind == "rgcn"

    @property
    def enters(self):
        """Whether features become rows of the hidden width first."""
        return self.kind in ("rgcn", "hgt")

    def layer(self, model, widths):
        if self.kind == "hgt":
            of = (list(widths), self.relations)
            return HGTConv(self.hidden, self.hidden, of, model.get("heads", 8))
        if self.whole:
            return RGCNConv(
                self.hidden,
                self.hidden,
                len(self.relations),
                num_bases=model.get("bases") or None,
                num_blocks=model.get("blocks") or None,
            )
        if self.kind == "rsage":

            def conv(_, d_in):
                return SAGEConv(d_in, self.hidden)

        else:
            heads = model.get("heads", 8)

            def conv(relation, d_in):
                shares = model.get("share_weights", False)
                if shares:
                    d_in = d_in[0]
                edge_dim = self.edge_widths.get(relation)
                options = {"add_self_loops": False, "edge_dim": edge_dim,
                           "residual": model.get("residual", False)}
                if self.kind == "rgatv2":
                    options["share_weights"] = shares
                of = ATTENTION[self.kind]
                return of(d_in, self.hidden // heads, heads, **options)

        return HeteroConv(
            {r: conv(r, (widths[r[0]], widths[r[2]])) for r in self.relations},
            aggr=model.get("relations", "sum"),
        )

    def convolve(self, conv, x, edges, edge_attr):
        if self.kind == "hgt":  # tells relations by their place, whatever their names
            edges = {r: edges[r] for r in self.relations}
        if self.edge_widths:
            return conv(x, edges, edge_attr_dict={r: edge_attr[r] for r in self.edge_widths})
        if not self.whole:
            return conv(x, edges)
        sizes = [len(rows) for rows in x.values()]
        first = dict(zip(x, [sum(sizes[:i]) for i in range(len(sizes))]))
        index, kind = [], []
        for i, (source, name, target) in enumerate(self.relations):
            e = edges[source, name, target]
            index.append(torch.stack([e[0] + first[source], e[1] + first[target]]))
            kind.append(torch.full((e.size(1),), i))
        y = conv(torch.cat(list(x.values())), torch.cat(index, 1), torch.cat(kind))
        return dict(zip(x, torch.split(y, sizes)))

    def forward(self, x, edges, edge_attr=None):
        """Logits of all vertices of the first type. edge_attr {relation: rows of its edges}."""
        if self.enters:
            x = {t: self.act(self.lin_dict[t](rows)) for t, rows in x.items()}
        for i, conv in enumerate(self.convs):
            x = self.convolve(conv, x, edges, edge_attr)
            if i + 1 == self.layers:
                break
            if self.normalises:
                x = {t: self.norms[i][t](rows) for t, rows in x.items()}
            if self.kind != "hgt":
                x = {t: self.act(rows) for t, rows in x.items()}
        return self.lin(x[self.labelled])
