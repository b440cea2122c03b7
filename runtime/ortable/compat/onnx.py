"""Private or changing interfaces of onnx: classes of its reference evaluator."""

# The imports below are for type checkers; at run time `__getattr__` resolves them from `NAMES`.
# ruff: noqa: F401

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .private import PrivateName, module_getattr

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_conv_transpose import ConvTranspose as OnnxConvTranspose
    from onnx.reference.ops.op_loop import Loop as OnnxLoop

NAMES: dict[str, PrivateName] = {
    "OpRun": PrivateName(
        "onnx.reference.op_run:OpRun", "class", "run operators that the reference evaluator lacks"
    ),
    "OnnxConvTranspose": PrivateName(
        "onnx.reference.ops.op_conv_transpose:ConvTranspose",
        "class",
        "run transposed convolutions with groups",
    ),
    "OnnxLoop": PrivateName(
        "onnx.reference.ops.op_loop:Loop", "class", "run loops without a condition"
    ),
}

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__ = module_getattr(__name__, NAMES)


def run_loop_body(node: Any, inputs: Any, **attributes: Any) -> Any:
    """Run one iteration of a Loop in the reference evaluator; return the results of its body."""
    return node._run_body(inputs, **attributes)
