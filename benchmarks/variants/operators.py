"""Handwritten graphs of ONNX Runtime operators that ortable's graphs do not use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper

from benchmarks.sessions import session


def mixture(module: Any, args: tuple[torch.Tensor, ...], threads: int) -> Callable[[], Any]:
    """Make a session of a Mixtral layer as Gemm and ``com.microsoft.MoE``; return its call."""
    experts, rows = module.experts, args[0].reshape(-1, args[0].shape[-1])
    gate_up = experts.gate_up_proj.numpy()
    half = gate_up.shape[1] // 2
    interleaved = np.empty_like(gate_up)  # MoE takes interleaved gate and up projections
    interleaved[:, 0::2], interleaved[:, 1::2] = gate_up[:, :half], gate_up[:, half:]
    weights = {
        "router": module.gate.weight.numpy(),
        "both": interleaved,
        "down": experts.down_proj.numpy(),
    }
    router_node = helper.make_node("Gemm", ["rows", "router"], ["scores"], transB=1)
    experts_node = helper.make_node(
        "MoE", ["rows", "scores", "both", "", "down"], ["mixed"], domain="com.microsoft",
        k=module.top_k, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.0,
        activation_beta=0.0, normalize_routing_weights=1,
    )  # fmt: skip
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, rows.shape)
        for name in ("rows", "mixed")
    ]
    graph = helper.make_graph(
        [router_node, experts_node], "mixture", info[:1], info[1:],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
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
