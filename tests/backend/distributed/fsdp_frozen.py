"""FSDP2 and weights as constants: FSDP gathers a weight into the same tensor, often at the same
address, and takes care to keep its version, so nothing on the tensor tells that it changed."""

from __future__ import annotations

import gc

import torch
from harness import run_cases
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ortable.backend.execute.call import OrtBackend


class Product(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, x):
        return x @ self.weight


def updates_are_seen(mesh, width):
    torch._dynamo.reset()
    single, model = Product(width), Product(width)
    model.load_state_dict(single.state_dict())
    storage = {}
    model.compile(backend="ortable", options={"storage": storage, "freeze": "on"})
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    x = torch.randn(4, width)
    with torch.no_grad():
        for _ in range(8):
            torch.testing.assert_close(model(x), single(x), rtol=1e-4, atol=1e-4)
            for parameter in (*single.parameters(), *model.parameters()):
                parameter.mul_(1.1)
    # Whether a stale value would show depends on where the allocator puts the weight.
    backends = [each for each in gc.get_objects() if type(each) is OrtBackend]
    assert backends and not any(each._frozen_sets for each in backends)
    nodes = [node for record in storage["instance"] for node in record["onnx"].graph.node]
    assert [node.op_type for node in nodes] == ["MatMul"], nodes


def over_two_processes(rank, world):
    for width in (8, 256):
        updates_are_seen(init_device_mesh("cpu", (world,)), width)


def over_one_process(rank, world):
    """A mesh of one: no collective at all, a copy that keeps the version."""
    mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicas", "shards"))
    for width in (8, 256):
        updates_are_seen(mesh["shards"], width)


CASES = [over_two_processes, over_one_process]

if __name__ == "__main__":
    run_cases(CASES)
