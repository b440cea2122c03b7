"""Neural networks of graphs, molecules and point clouds."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.modules import wrap_function
from tests.zoo.program import Program


def _edges(nodes: int, count: int) -> torch.Tensor:
    return torch.randint(0, nodes, (2, count))


def _graph(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5 * n, 8), _edges(5 * n, 12 * n)


def _graph_with_attributes(n: int) -> tuple[torch.Tensor, ...]:
    return *_graph(n), torch.randn(12 * n, 4)


def _batched(n: int) -> tuple[torch.Tensor, ...]:
    return *_graph(n), torch.arange(n).repeat_interleave(5)


def _molecules(n: int) -> tuple[torch.Tensor, ...]:
    species = torch.tensor([8, 1, 1, 6, 1]).repeat(n)
    return species, torch.randn(5 * n, 3) * 1.5, torch.arange(n).repeat_interleave(5)


# -- torch_geometric


def torch_geometric__gcn() -> Program:
    from torch_geometric.nn.models import GCN

    return Program(GCN(8, 16, num_layers=2, out_channels=3, norm="batch_norm"), _graph)


def torch_geometric__gat_with_jumping_knowledge() -> Program:
    from torch_geometric.nn.models import GAT

    model = GAT(8, 16, num_layers=2, out_channels=3, v2=True, heads=2, edge_dim=4, jk="lstm")
    return Program(
        wrap_function(lambda self, x, edges, attr: self.gat(x, edges, edge_attr=attr), gat=model),
        _graph_with_attributes,
    )


def torch_geometric__sage_with_max() -> Program:
    from torch_geometric.nn.models import GraphSAGE

    return Program(GraphSAGE(8, 16, 2, 3, aggr=["max", "mean", "std"], norm="graph_norm"), _graph)


def torch_geometric__gin_graph_classifier() -> Program:
    from torch_geometric.nn import MLP, global_add_pool
    from torch_geometric.nn.models import GIN

    def classify(self: Any, x: Any, edges: Any, batch: Any) -> torch.Tensor:
        return self.mlp(global_add_pool(self.gin(x, edges), batch))

    mlp = MLP([16, 16, 3], norm=None)
    return Program(wrap_function(classify, gin=GIN(8, 16, 2), mlp=mlp), _batched)


def torch_geometric__pna() -> Program:
    from torch_geometric.nn import PNAConv

    conv = PNAConv(
        8, 12, aggregators=["mean", "min", "max", "std", "var"],
        scalers=["identity", "amplification", "attenuation"], deg=torch.tensor([0, 2, 4, 3, 1]),
        edge_dim=4, towers=2,
    )  # fmt: skip
    return Program(conv, _graph_with_attributes)


def torch_geometric__hetero_conv() -> Program:
    from torch_geometric.nn import GATConv, HeteroConv, Linear, SAGEConv

    convs = {
        ("paper", "cites", "paper"): SAGEConv((-1, -1), 16),
        ("author", "writes", "paper"): GATConv((-1, -1), 16, add_self_loops=False),
        ("paper", "rev_writes", "author"): SAGEConv((-1, -1), 16),
    }
    conv, head = HeteroConv(convs, aggr="sum"), Linear(16, 3)

    def make(n: int) -> tuple[Any, ...]:
        features = {"paper": torch.randn(5 * n, 8), "author": torch.randn(2 * n, 6)}
        writes = torch.stack([torch.randint(0, 2 * n, (9 * n,)), torch.randint(0, 5 * n, (9 * n,))])
        return features, {
            ("paper", "cites", "paper"): _edges(5 * n, 12 * n),
            ("author", "writes", "paper"): writes,
            ("paper", "rev_writes", "author"): writes.flip(0),
        }

    def classify(self: Any, features: Any, edges: Any) -> Any:
        return {name: self.head(x.relu()) for name, x in self.conv(features, edges).items()}

    conv(*make(2))  # the sizes of the lazy layers
    return Program(wrap_function(classify, conv=conv, head=head), make)


def torch_geometric__rgcn() -> Program:
    from torch_geometric.nn import RGCNConv

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return *_graph(n), torch.randint(0, 3, (12 * n,))

    return Program(RGCNConv(8, 6, num_relations=3, num_bases=2), make)


def torch_geometric__top_k_pooling() -> Program:
    from torch_geometric.nn import GraphConv, TopKPooling, global_max_pool, global_mean_pool

    def classify(self: Any, x: Any, edges: Any, batch: Any) -> torch.Tensor:
        x = self.conv(x, edges).relu()
        x, edges, _, batch, *_ = self.pool(x, edges, None, batch)
        return torch.cat([global_max_pool(x, batch), global_mean_pool(x, batch)], 1)

    conv, pool = GraphConv(8, 16), TopKPooling(16, ratio=0.6)
    return Program(wrap_function(classify, conv=conv, pool=pool), _batched)


def torch_geometric__dense_pooling() -> Program:
    from torch_geometric.nn import DenseSAGEConv, dense_diff_pool

    def make(n: int) -> tuple[torch.Tensor, ...]:
        mask = torch.arange(6) < torch.randint(2, 7, (n, 1))
        return torch.randn(n, 6, 8), torch.rand(n, 6, 6).round(), mask

    def pool(self: Any, x: Any, adjacency: Any, mask: Any) -> Any:
        assignment = self.assign(x, adjacency, mask)
        return dense_diff_pool(self.embed(x, adjacency, mask), adjacency, assignment, mask)

    parts = {"assign": DenseSAGEConv(8, 3), "embed": DenseSAGEConv(8, 16)}
    return Program(wrap_function(pool, **parts), make)


def torch_geometric__gps_transformer() -> Program:
    from torch_geometric.nn import GINEConv, GPSConv, Linear

    network = torch.nn.Sequential(Linear(8, 8), torch.nn.ReLU(), Linear(8, 8))
    conv = GPSConv(8, GINEConv(network, edge_dim=4), heads=2)

    def attend(self: Any, x: Any, edges: Any, batch: Any, attr: Any) -> torch.Tensor:
        return self.conv(x, edges, batch, edge_attr=attr)

    return Program(
        wrap_function(attend, conv=conv), lambda n: (*_batched(n), torch.randn(12 * n, 4))
    )


def torch_geometric__autoencoder_loss() -> Program:
    from torch_geometric.nn import GAE, GCNConv

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GCNConv(8, 16), GCNConv(16, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.conv2(self.conv1(x, edges).relu(), edges)

    def compute_loss(self: Any, x: Any, edges: Any, negatives: Any) -> torch.Tensor:
        return self.model.recon_loss(self.model.encode(x, edges), edges, negatives)

    model = wrap_function(compute_loss, model=GAE(Encoder()))
    return Program(model, lambda n: (*_graph(n), _edges(5 * n, 10 * n)))


def torch_geometric__aggregations() -> Program:
    from torch_geometric.nn.aggr import (
        AttentionalAggregation,
        MultiAggregation,
        Set2Set,
        SoftmaxAggregation,
        SortAggregation,
    )

    aggregation = MultiAggregation(
        ["median", SoftmaxAggregation(learn=True), Set2Set(8, 2), SortAggregation(k=3),
         AttentionalAggregation(torch.nn.Linear(8, 1))],
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(5 * n, 8), torch.arange(n).repeat_interleave(5)

    return Program(aggregation, make)


def _all_pairs(positions: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    same = (batch[:, None] == batch) & ~torch.eye(len(batch), dtype=torch.bool)
    edges = same.nonzero().t()
    return edges, (positions[edges[0]] - positions[edges[1]]).norm(dim=-1)


def torch_geometric__schnet_forces() -> Program:
    from torch_geometric.nn.models import SchNet

    model = SchNet(16, 16, 2, 8, cutoff=5.0, interaction_graph=_all_pairs)

    def compute_energy(self: Any, species: Any, positions: Any, batch: Any) -> Any:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_()
            energy = self.model(species, positions, batch)
            (gradient,) = torch.autograd.grad(energy.sum(), positions, create_graph=self.training)
        return energy, -gradient

    return Program(wrap_function(compute_energy, model=model), _molecules)


def torch_geometric__point_net() -> Program:
    from torch_geometric.nn import MLP, PointNetConv, PointTransformerConv

    def classify(self: Any, positions: Any, edges: Any) -> torch.Tensor:
        return self.transformer(self.conv(None, positions, edges), positions, edges)

    conv, transformer = PointNetConv(MLP([3, 8, 8], norm=None)), PointTransformerConv(8, 6)
    model = wrap_function(classify, conv=conv, transformer=transformer)
    return Program(model, lambda n: (torch.randn(6 * n, 3), _edges(6 * n, 15 * n)))


def torch_geometric__link_prediction() -> Program:
    from torch_geometric.nn.models import LightGCN

    def compute_loss(self: Any, edges: Any, labels: Any) -> torch.Tensor:
        positive, negative = self.model(edges, labels).chunk(2)
        return self.model.recommendation_loss(positive, negative, node_id=labels.unique())

    return Program(
        wrap_function(compute_loss, model=LightGCN(10, 8, 2)),
        lambda n: (_edges(10, 12 * n), _edges(10, 4 * n)),
    )


# -- e3nn


def e3nn__tensor_product_convolution() -> Program:
    import e3nn
    from e3nn import nn, o3

    e3nn.set_optimization_defaults(jit_script_fx=False)
    inputs, harmonics = o3.Irreps("4x0e + 2x1o"), o3.Irreps.spherical_harmonics(2)
    product = o3.FullyConnectedTensorProduct(
        inputs, harmonics, "4x0e + 2x1o + 1x2e", shared_weights=False
    )
    network = nn.FullyConnectedNet([8, 16, product.weight_numel], torch.nn.functional.silu)

    def convolve(self: Any, x: Any, positions: Any, edges: Any) -> torch.Tensor:
        source, target = edges
        vectors = positions[target] - positions[source]
        angular = o3.spherical_harmonics(harmonics, vectors, normalize=True)
        radial = e3nn.math.soft_one_hot_linspace(
            vectors.norm(dim=1), 0.0, 4.0, 8, basis="smooth_finite", cutoff=True
        )
        messages = self.product(x[source], angular, self.network(radial))
        result = messages.new_zeros(x.shape[0], messages.shape[1])
        return result.index_add(0, target, messages)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        edges = torch.stack([torch.arange(5 * n), torch.arange(5 * n).roll(1)])
        return inputs.randn(5 * n, -1), torch.randn(5 * n, 3), edges

    return Program(wrap_function(convolve, product=product, network=network), make)


def e3nn__gated_block() -> Program:
    import e3nn
    from e3nn import nn, o3

    e3nn.set_optimization_defaults(jit_script_fx=False)
    gate = nn.Gate("4x0e", [torch.tanh], "3x0e", [torch.sigmoid], "2x1o + 1x2e")
    linear = o3.Linear("6x0e + 3x1o + 2x2e", gate.irreps_in)
    norm = nn.BatchNorm(gate.irreps_out)
    model = torch.nn.Sequential(linear, gate, norm)
    return Program(model, lambda n: (linear.irreps_in.randn(4 * n, -1),))


def e3nn__rotations() -> Program:
    from e3nn import o3

    def rotate(self: Any, angles: torch.Tensor, x: torch.Tensor) -> Any:
        matrices = o3.angles_to_matrix(*angles.unbind(-1))
        wigner = o3.wigner_D(2, *o3.matrix_to_angles(matrices))
        return torch.einsum("nij,nj->ni", wigner, x), o3.matrix_to_quaternion(matrices)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(n, 3) + 0.3, torch.randn(n, 5)

    return Program(wrap_function(rotate), make, ("compile", "export"))


# -- molecules


def torchani__energies_and_forces() -> Program:
    from torchani.arch import simple_ani

    model = simple_ani(("H", "C", "N", "O"), "wb97x-631gd", strategy="pyaev", ensemble_size=2)

    def compute_energy(self: Any, species: Any, positions: Any) -> Any:
        return self.model((species, positions)).energies

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.tensor([8, 1, 1, 6, 1]).repeat(n, 1), torch.randn(n, 5, 3)

    return Program(wrap_function(compute_energy, model=model), make)


def torchani__radial_features() -> Program:
    from torchani.aev import AEVComputer

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.tensor([3, 0, 0, 1, 0]).repeat(n, 1), torch.randn(n, 5, 3)

    model = AEVComputer.like_2x(strategy="pyaev", num_species=4)
    return Program(model, make, ("compile", "export"))


def _crystal(n: int) -> tuple[torch.Tensor, ...]:
    positions = torch.rand(4 * n, 3) * 4.0
    neighbors = torch.triu_indices(4 * n, 4 * n, 1).t()
    distances = (positions[neighbors[:, 0]] - positions[neighbors[:, 1]]).norm(dim=1)
    charges = torch.tensor([1.0, -1.0]).repeat(2 * n)[:, None]
    return charges, torch.eye(3) * 4.0, positions, neighbors, distances


def torchpme__ewald() -> Program:
    from torchpme import CoulombPotential, EwaldCalculator

    model = EwaldCalculator(CoulombPotential(smearing=1.0), lr_wavelength=1.5)
    return Program(model, _crystal, ("compile", "export"))


def torchpme__particle_mesh() -> Program:
    from torchpme import CoulombPotential, PMECalculator

    model = PMECalculator(CoulombPotential(smearing=1.0), mesh_spacing=0.8)
    return Program(model, _crystal, ("compile", "export"))
