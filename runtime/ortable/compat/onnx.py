"""What of onnx is private or moves between releases: inner classes of its reference evaluator."""

# The imports below are for type checkers; whoever imports one gets it from `NAMES`.
# ruff: noqa: F401

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .private import Private, looked_up

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_conv_transpose import ConvTranspose as OnnxConvTranspose
    from onnx.reference.ops.op_loop import Loop as OnnxLoop

NAMES: dict[str, Private] = {
    "OpRun": Private(
        "onnx.reference.op_run:OpRun", "class", "run operators that the reference evaluator lacks"
    ),
    "OnnxConvTranspose": Private(
        "onnx.reference.ops.op_conv_transpose:ConvTranspose",
        "class",
        "run transposed convolutions with groups",
    ),
    "OnnxLoop": Private(
        "onnx.reference.ops.op_loop:Loop", "class", "run loops without a condition"
    ),
}

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__ = looked_up(__name__, NAMES)


def run_loop_body(node: Any, inputs: Any, **given: Any) -> Any:
    """One round of a Loop of the reference evaluator: the results of its body."""
    return node._run_body(inputs, **given)
