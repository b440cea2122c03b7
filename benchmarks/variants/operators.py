"""Graphs by hand of ONNX Runtime's own operators, where our graphs do not have them. In come a
module and arguments of a call, out goes a call of a bare session. Called by measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper

from benchmarks.sessions import session


def mixture(module: Any, args: tuple[torch.Tensor, ...], threads: int) -> Callable[[], Any]:
    """A layer of Mixtral as Gemm and ``com.microsoft.MoE``. The operator takes the scores of the
    experts before their softmax, and gates that alternate with what they let through."""
    experts, rows = module.experts, args[0].reshape(-1, args[0].shape[-1])
    both = experts.gate_up_proj.numpy()
    inner = both.shape[1] // 2
    alternating = np.empty_like(both)
    alternating[:, 0::2], alternating[:, 1::2] = both[:, :inner], both[:, inner:]
    stored = {
        "router": module.gate.weight.numpy(),
        "both": alternating,
        "down": experts.down_proj.numpy(),
    }
    chosen = helper.make_node("Gemm", ["rows", "router"], ["scores"], transB=1)
    mixed = helper.make_node(
        "MoE", ["rows", "scores", "both", "", "down"], ["mixed"], domain="com.microsoft",
        k=module.top_k, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.0,
        activation_beta=0.0, normalize_routing_weights=1,
    )  # fmt: skip
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, rows.shape)
        for name in ("rows", "mixed")
    ]
    graph = helper.make_graph(
        [chosen, mixed], "mixture", info[:1], info[1:],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    run, feeds = session(model, threads), {"rows": rows.numpy()}
    shape = args[0].shape
    return lambda: [run.run(None, feeds)[0].reshape(shape)]


OPERATORS = {
    "experts": mixture,
    "experts, a token": mixture,
    "experts, gathered": mixture,
}
