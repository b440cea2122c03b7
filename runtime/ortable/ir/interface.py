"""Inputs, outputs and initializers of a graph under construction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim, SymDim
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo

from . import constants, initializers
from .shape_materializer import ShapeMaterializer
from .state import GraphState, check_element_type, describe_shape


class GraphInterface(GraphState):
    """Base class of `Graph` that adds inputs, outputs and initializers.

    ``small_initializers`` maps the content of small constants to their names, ``tied_initializers``
    the memory of torch tensors.
    """

    materializer: ShapeMaterializer

    def __init__(self, parent: GraphInterface | None, tag: str) -> None:
        super().__init__(parent, tag)
        self.small_initializers: dict[Any, str] = {}
        self.tied_initializers: dict[Any, str] = {}

    # -- inputs and outputs

    def make_tensor_input(
        self,
        name: str,
        elem_type: int | None,
        shape: Sequence[Any] | None,
        is_dimension: bool = False,
        indexed: bool = False,
    ) -> str:
        """Add a graph input and return its name.

        Args:
            name: name of the input.
            elem_type: element type; None if it is unknown.
            shape: ints, names of dimensions, torch.SymInts, or None for an unknown size. None
                instead of a sequence means an unknown rank.
            is_dimension: the input is an integer of one element whose value is a dimension. If
                ``shape`` is ``("batch",)``, the dimension is ``batch``; else the input's name.
            indexed: check that the name ends in ``_<number>``.

        Raises:
            BuilderError: the name is empty or taken, the type or the shape is invalid, or an input
                with ``is_dimension`` has the wrong type or shape.
        """
        _check_indexed(name, indexed)
        self._check_new(name, "input")
        check_element_type(name, elem_type)
        sizes = None if shape is None or is_dimension else self.to_shape(shape, name)
        if is_dimension:
            self._check_dimension(name, elem_type, shape)
        info = self.new_value(name)
        self.inputs.append(info)
        info.dtype = elem_type or None
        if is_dimension:
            self._set_dimension(info, shape)
        elif shape is not None and sizes is not None:
            info.shape = sizes
            info.rank = len(info.shape)
            self.declared_types[name] = tuple(shape)
            self.materializer.add_shape(name, info.shape, is_input=True)
        self.history.append(("make_tensor_input", name))
        return name

    def _check_dimension(
        self, name: str, elem_type: int | None, shape: Sequence[Any] | None
    ) -> None:
        if elem_type not in (dtypes.int64, dtypes.int32):
            raise BuilderError(
                f"Input {name!r} is a dimension: its type must be int64, not "
                f"{dtypes.name(elem_type or 0)} ({self.tag})"
            )
        if len(self.to_shape(shape or (), name)) > 1:
            raise BuilderError(
                f"Input {name!r} is a dimension: its shape must be (1,) or (), not {shape}"
            )

    def _set_dimension(self, info: ValueInfo, shape: Sequence[Any] | None) -> None:
        sizes = (1,) if shape is None else tuple(shape)
        dim: Dim = dims.make_symbol(info.name)
        if sizes and sizes[0] != 1:
            dim, sizes = self.to_dim(sizes[0]), (1,)
        info.shape = sizes
        info.rank = len(sizes)
        info.value = (dim,) if sizes else dim
        if isinstance(dim, SymDim) and info.dtype == dtypes.int64:
            self.materializer.add_source(dim, info.name, None)

    @overload
    def make_tensor_output(
        self,
        name: str,
        elem_type: int | None = None,
        shape: Sequence[Any] | None = None,
        indexed: bool = False,
        is_dimension: bool = False,
    ) -> str: ...
    @overload
    def make_tensor_output(
        self,
        name: list[str] | tuple[str, ...],
        elem_type: int | None = None,
        shape: Sequence[Any] | None = None,
        indexed: bool = False,
        is_dimension: bool = False,
    ) -> list[str]: ...
    def make_tensor_output(
        self,
        name: str | Sequence[str],
        elem_type: int | None = None,
        shape: Sequence[Any] | None = None,
        indexed: bool = False,
        is_dimension: bool = False,
    ) -> str | list[str]:
        """Declare results as graph outputs and return the name or names.

        Args:
            name: the name of a result, or a list of names.
            elem_type: element type; defaults to the known type.
            shape: shape; defaults to the known shape. A declared shape is written to the model even
                if it contradicts the known one, with a warning.
            indexed: check that the name ends in ``_<number>``.
            is_dimension: check that the output is an int64.

        Raises:
            BuilderError: a result is unknown, already an output, or computed outside of this
                subgraph; or its type is not ``elem_type``, or neither known nor given.
        """
        if not isinstance(name, str):
            return [
                self.make_tensor_output(result, elem_type, shape, indexed, is_dimension)
                for result in name
            ]
        _check_indexed(name, indexed)
        info = self._get_info(name)
        if self.parent is not None and not self.is_own(name):
            raise BuilderError(
                f"{name!r} is computed outside of subgraph {self.name!r}, which cannot return it "
                f"directly; return make_node('Identity', [{name!r}]) ({self.tag})"
            )
        if any(output is info for output in self.outputs):
            raise BuilderError(
                f"{name!r} is already an output; give the second output another name with "
                f"make_node('Identity', [{name!r}], [...]) ({self.tag}){self.get_debug_msg()}"
            )
        if elem_type:
            self.set_type(name, elem_type)
        elif not info.dtype and self.parent is None:
            raise BuilderError(
                f"Type is unknown for output {name!r}; give elem_type "
                f"({self.tag}){self.get_debug_msg()}"
            )
        if is_dimension and info.dtype != dtypes.int64:
            raise BuilderError(
                f"Output {name!r} is a dimension: its type must be int64 ({self.tag})"
            )
        if shape is not None:
            self._declare_output(info, shape)
        self.outputs.append(info)
        self.history.append(("make_tensor_output", name))
        return name

    def _declare_output(self, info: ValueInfo, shape: Sequence[Any]) -> None:
        declared = self.to_shape(shape, info.name)
        self.declared_types[info.name] = tuple(shape)
        if info.shape is None and info.rank in (None, len(declared)):
            info.shape, info.rank = declared, len(declared)
            return
        computed = info.shape
        if (
            computed is None
            or len(computed) != len(declared)
            or any(map(dims.always_differ, computed, declared))
        ):
            computed_text = f"rank {info.rank}" if computed is None else describe_shape(computed)
            warnings.warn(
                f"Output {info.name!r} is declared with shape {describe_shape(declared)}, "
                f"but the graph computes {computed_text}; the declared shape is kept.",
                stacklevel=3,
            )

    def _check_new(self, name: str, role: str) -> None:
        if not name or not isinstance(name, str):
            raise BuilderError(
                f"The name of an {role} must be a non-empty str, not {name!r} ({self.tag})"
            )
        if name in self.values:
            raise BuilderError(
                f"The {role} {name!r} cannot be made: the graph already has a result of this name"
                f" ({self.tag}){self.get_debug_msg()}"
            )

    def new_value(self, name: str) -> ValueInfo:
        """Register a new result without known facts."""
        info = ValueInfo(name)
        self.values[name] = info
        self.result_names.taken.add(name)
        return info

    # -- initializers

    def make_initializer(self, name: str, value: Any) -> str:
        """Add a constant and return its name.

        Torch tensors that share memory become one initializer whatever their names, so callers must
        use the returned name.

        Args:
            name: the name; ``""`` makes a name from type and shape, and merges small equal
                constants.
            value: numpy array, number, list, TensorProto, or torch tensor. The graph references a
                tensor and reads it when the model is written.

        Raises:
            BuilderError: the name is taken.
            UnsupportedDtype: ONNX does not have the dtype.
        """
        value = initializers.normalize_value(value)
        if (
            not name
            and isinstance(value, np.ndarray)
            and value.size <= initializers.MAX_SMALL_ELEMENTS
        ):
            existing = self._find_equal("small_initializers", initializers.content_key(value))
            if existing is not None:
                return existing
        is_torch_value = initializers.is_torch(value)
        memory_key = initializers.storage_key(value) if is_torch_value else None
        existing = self._find_equal("tied_initializers", memory_key)
        if existing is not None:
            return existing
        shape, dtype = initializers.shape_of(value), initializers.dtype_of(value)
        array = None
        if initializers.size_of(
            value
        ) <= initializers.MAX_SMALL_ELEMENTS and initializers.is_readable(value):
            is_integer = dtype in (dtypes.int64, dtypes.int32)
            if not is_torch_value or not name or is_integer:
                array = initializers.to_numpy(value, name)
        if not name:
            key = None if array is None else initializers.content_key(array)
            existing = self._find_equal("small_initializers", key)
            if existing is not None:
                return existing
            name = self.unique_name(initializers.default_name(dtype, shape, array))
            if array is not None:
                self.small_initializers[key] = name
                # a copy, because later equal constants are merged with it, and a tensor may change
                value = array.copy() if is_torch_value else value
        else:
            self._check_new(name, "initializer")
        if memory_key is not None:
            self.tied_initializers[memory_key] = name
        info = self.new_value(name)
        info.dtype, info.shape, info.rank = dtype, shape, len(shape)
        if array is not None:
            info.value = initializers.integer_value(array)
        self.initializers_dict[name] = value
        if not initializers.is_fake(value):
            info.constant = constants.LazyConstant(self, name) if array is None else array
            self.constant_names.add(name)
        self.history.append(("make_initializer", name))
        return name

    def _find_equal(self, table_name: str, key: Any) -> str | None:
        """Find the name for ``key`` in a table of this graph or an enclosing one, or None."""
        graph: Any = self
        while graph is not None and key is not None:
            existing = getattr(graph, table_name).get(key)
            if existing is not None:
                return str(existing)
            graph = graph.parent
        return None


def _check_indexed(name: str, indexed: bool) -> None:
    if indexed and not name.rpartition("_")[2].isdigit():
        raise BuilderError(f"{name!r} is declared as indexed: its name must end in '_<number>'.")
