"""Materialize dimensions as results: int64 vectors that hold `batch`, `2*s0`, or a whole shape.

An int becomes an initializer, a Shape node reads a symbol from a result that has it as a size, and
arithmetic nodes compute an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim, Shape, SymDim
from ortable.errors import BuilderError
from ortable.inference import ValueInfo


class Maker(Protocol):
    """Interface of a graph under construction that `ShapeMaterializer` uses."""

    tag: str
    rename_dims: dict[str, str | SymDim]
    values: dict[str, ValueInfo]

    def has_name(self, name: str) -> bool:
        """Whether the graph, or an enclosing one, has the result."""
        ...

    def get_debug_msg(self) -> str:
        """Return the text that is appended to error messages."""
        ...

    def make_initializer(self, name: str, value: Any) -> str:
        """Add a constant and return its name."""
        ...

    def make_node(
        self, op_type: str, inputs: str | Sequence[str | None], *args: Any, **attrs: Any
    ) -> Any:
        """Add a node and return the name of its output."""
        ...


class Source(NamedTuple):
    """Source of a dimension: a result's size along an axis, or its value if the axis is None."""

    result: str
    axis: int | None


class Linear(NamedTuple):
    """A dimension ``factor * symbol + constant``, from which nodes can compute the symbol."""

    dim: SymDim
    factor: int
    constant: int


class ShapeMaterializer:
    """Sources of dimensions in one graph or subgraph, and the vectors made from them.

    Attributes:
        sources: where to read a dimension, by the text of the dimension.
        linear: by symbol, a dimension from which the symbol can be computed (``2*n + 1`` for n).
        vectors: int64[1] results by the dimension that they hold.
        shapes: int64[n] results by the shape that they hold.
    """

    def __init__(self, builder: Maker, outer: ShapeMaterializer | None) -> None:
        self.builder = builder
        self.outer = outer
        self.sources: dict[str, Source] = {}
        self.linear: dict[str, Linear] = {}
        self.vectors: dict[Dim, str] = {}
        self.shapes: dict[tuple[Any, ...], str] = {}

    # -- sources

    def add_source(self, dim: str | SymDim, result: str, axis: int | None) -> None:
        """Record that a dimension can be read from a result, unless it already has a source."""
        self.sources.setdefault(str(dim), Source(result, axis))

    def add_shape(self, name: str, shape: Shape, is_input: bool = False) -> None:
        """Record a result as source of those dimensions in its shape that have no source yet.

        For an input, dimensions that are expressions are recorded as well as symbols.
        """
        for axis, dim in enumerate(shape):
            if type(dim) is int or str(dim) in self.sources:
                continue
            if is_input or dims.is_symbol(dim):
                self.add_source(dim, name, axis)  # type: ignore[arg-type]
                self._add_linear(dim)

    def _add_linear(self, dim: Dim) -> None:
        """Record a dimension as source of its only symbol, if it is linear in the symbol."""
        symbols = dims.free_symbols(dim)
        if len(symbols) != 1 or dims.is_symbol(dim):
            return
        (symbol,) = symbols
        try:
            constant, at_one = (
                dims.substitute_symbols(dim, {symbol: 0}),
                dims.substitute_symbols(dim, {symbol: 1}),
            )
        except BuilderError:
            return  # the expression divides by the symbol, for which 0 was substituted
        if isinstance(constant, int) and isinstance(at_one, int) and isinstance(dim, SymDim):
            factor = at_one - constant
            if factor > 0 and str(factor * dims.make_symbol(symbol) + constant) == str(dim):
                self.linear.setdefault(symbol, Linear(dim, factor, constant))

    def find_source(self, dim_text: str) -> Source | None:
        """Find the source of a dimension, given as text, in this graph or an enclosing one."""
        source = self.sources.get(dim_text)
        if source is None and self.outer is not None:
            return self.outer.find_source(dim_text)
        return source

    def find_linear(self, symbol: str) -> Linear | None:
        """Find a dimension that is linear in the symbol, in this graph or an enclosing one."""
        linear = self.linear.get(symbol)
        if linear is None and self.outer is not None:
            return self.outer.find_linear(symbol)
        return linear

    def can_compute(self, dim: Any, any_symbol: bool = False) -> bool:
        """Whether nodes can compute a dimension from the sources of this graph and enclosing ones.

        False also for an opaque function without a source, whose recipe could compute it.

        With ``any_symbol``, every symbol counts as computable, because its source may be recorded
        later.
        """
        if not isinstance(dim, SymDim) or self.find_source(str(dim)) is not None:
            return True
        for _, atoms in dims.split_terms(dim):
            for atom in atoms:
                if self.find_source(str(atom.dim)) is not None:
                    continue
                if atom.kind == "opaque":
                    return False
                if atom.kind == "symbol":
                    if not any_symbol and self.find_linear(str(atom.dim)) is None:
                        return False
                elif not all(self.can_compute(arg, any_symbol) for arg in atom.args):
                    return False
        return True

    def describe_sources(self) -> dict[str, str]:
        """Return the source of each dimension as text, such as `x` or `x.shape[0]`."""
        return {
            name: source.result if source.axis is None else f"{source.result}.shape[{source.axis}]"
            for name, source in self.sources.items()
        }

    def drop_dead(self, alive: Any) -> None:
        """Remove sources and vectors whose results the graph no longer has."""
        self.sources = {
            key: source for key, source in self.sources.items() if source.result in alive
        }
        self.vectors = {key: name for key, name in self.vectors.items() if name in alive}
        self.shapes = {key: name for key, name in self.shapes.items() if name in alive}
        self.linear = {
            key: linear for key, linear in self.linear.items() if str(linear.dim) in self.sources
        }

    def rename_results(self, names: Mapping[str, str]) -> None:
        """Update sources and vectors after results were renamed, with new names by old names."""
        self.vectors = {key: names.get(name, name) for key, name in self.vectors.items()}
        self.shapes = {key: names.get(name, name) for key, name in self.shapes.items()}
        self.sources = {
            key: source._replace(result=names.get(source.result, source.result))
            for key, source in self.sources.items()
        }

    def rename_new(self, old: str, new: str, shape: Shape | None, holds_sizes: bool) -> None:
        """Update sources and vectors after a new result was renamed.

        ``holds_sizes`` tells whether its value may be recorded as a source or vector of dimensions.
        If not, only sources of the sizes in ``shape`` can refer to the result.
        """
        if holds_sizes:
            self.rename_results({old: new})
            return
        for dim in shape or ():
            if type(dim) is not int:
                source = self.sources.get(str(dim))
                if source is not None and source.result == old:
                    self.sources[str(dim)] = source._replace(result=new)

    # -- vectors

    def dim_vector(self, dim: Dim) -> str:
        """Return the name of an int64[1] result that holds the dimension.

        Raises:
            BuilderError: a symbol of the dimension has no source, or a function in it no ONNX form.
        """
        name = self._find_vector(dim)
        if name is None:
            name = self.vectors[dim] = self._make_vector(dim)
        return name

    def find_scalar(self, dim: Dim) -> str | None:
        """Return a 0-d int64 result that holds a dimension, or None."""
        source = self.find_source(str(dim))
        if source is None or source.axis is not None:
            return None
        info = self.builder.values[source.result]
        return source.result if info.rank == 0 and info.dtype == dtypes.int64 else None

    def _find_vector(self, dim: Dim) -> str | None:
        name = self.vectors.get(dim)
        if name is None and self.outer is not None:
            return self.outer._find_vector(dim)
        return name

    def record_vector(self, dim: Dim, name: str) -> None:
        """Record an existing int64[1] result that holds the dimension."""
        if self._find_vector(dim) is None:
            self.vectors[dim] = name

    def _make_vector(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return self._make_ints([dim])
        source = self.find_source(str(dim))
        if source is not None:
            return self._read_sizes(source, source.axis)
        if not dims.is_symbol(dim):
            return self._make_sum(dim)
        linear = self.find_linear(str(dim))
        if linear is not None:
            vector = self.dim_vector(linear.dim)
            if linear.constant:
                vector = self._make_op("Sub", vector, self._make_ints([linear.constant]))
            if linear.factor == 1:
                return vector
            return self._make_op("Div", vector, self._make_ints([linear.factor]))
        known_dims = ", ".join(sorted(self.describe_sources())) or "none"
        raise BuilderError(
            f"No result of the graph has dimension {str(dim)!r} (known: {known_dims}). "
            "Use it in the shape of an input, or call add_dim_source(name, result, axis) or "
            f"make_tensor_input(name, INT64, (1,), is_dimension=True)"
            f" ({self.builder.tag}){self.builder.get_debug_msg()}"
        )

    def _read_sizes(self, source: Source, last_axis: int | None) -> str:
        """Make a vector of the sizes from the source's axis to ``last_axis`` (inclusive).

        If the source is the value of a result, the vector holds this value.
        """
        if source.axis is None or last_axis is None:
            info = self.builder.values[source.result]
            if info.rank == 0:
                return self._make_node("Reshape", [source.result, self._make_ints([1])])
            return source.result
        return self._make_node("Shape", [source.result], start=source.axis, end=last_axis + 1)

    def _make_sum(self, dim: SymDim) -> str:
        total: str | None = None
        for coefficient, atoms in dims.split_terms(dim):
            term = self._make_product(abs(coefficient), atoms)
            if total is None:
                total = term if coefficient > 0 else self._make_op("Neg", term)
            else:
                total = self._make_op("Add" if coefficient > 0 else "Sub", total, term)
        assert total is not None
        return total

    def _make_product(self, coefficient: int, atoms: Sequence[dims.Factor]) -> str:
        product = self._make_ints([coefficient]) if coefficient != 1 or not atoms else None
        for atom in atoms:
            vector = self._factor_vector(atom)
            product = vector if product is None else self._make_op("Mul", vector, product)
        assert product is not None
        return product

    def _factor_vector(self, atom: dims.Factor) -> str:
        cached = self._find_vector(atom.dim)
        if cached is not None:
            return cached
        name = self._make_factor(atom)
        self.vectors[atom.dim] = name
        return name

    def _make_factor(self, atom: dims.Factor) -> str:
        if atom.kind == "symbol" or self.find_source(str(atom.dim)) is not None:
            return self._make_vector(atom.dim)
        if atom.kind == "opaque":
            recipe = dims.recipe_of(atom.dim)
            if recipe is not None:
                return self._make_node("Cast", [self._evaluate_recipe(*recipe)], to=dtypes.int64)
            raise BuilderError(
                f"Dimension {atom.dim} is computed by a function that has no ONNX form, and "
                f"no result of the graph has it ({self.builder.tag}){self.builder.get_debug_msg()}"
            )
        args = [self.dim_vector(arg) for arg in atom.args]
        if atom.kind in ("max", "min"):
            return self._make_op(atom.kind.capitalize(), *args)
        if atom.kind == "mod":
            return self._make_op("Mod", *args)
        dividend, divisor = atom.args
        if dividend >= 0 and divisor >= 0:
            return self._make_op("Div", *args)
        # Div rounds toward zero, // down: a // b is Div(a - a % b, b), whose division is exact
        return self._make_op(
            "Div", self._make_op("Sub", args[0], self._make_op("Mod", *args)), args[1]
        )

    def _evaluate_recipe(self, recipe: dims.Recipe, args: Sequence[Dim]) -> str:
        """Make nodes that apply ``recipe`` to dimensions; return the float64[1] result.

        ``("Ceil", ("Div", 0, 2.0))`` is ``ceil(args[0] / 2.0)``: an int is an index into ``args``.
        """
        if isinstance(recipe, int):
            return self._make_node("Cast", [self.dim_vector(args[recipe])], to=dtypes.float64)
        if isinstance(recipe, float):
            return self.builder.make_initializer("", np.array([recipe]))
        op_type, *parts = recipe
        inputs = [self._evaluate_recipe(part, args) for part in parts]
        if op_type == "Trunc":
            truncated = self._make_node("Cast", inputs, to=dtypes.int64)
            return self._make_node("Cast", [truncated], to=dtypes.float64)
        return self._make_node(op_type, inputs)

    # -- whole shapes

    def shape_vector(self, shape: Sequence[Dim]) -> str:
        """Return the name of an int64[n] result that holds the ``n`` dimensions of a shape."""
        key = tuple(shape)
        name = self._cached_shape(key)
        if name is None:
            name = self._concat_pieces(self._shape_pieces(key), key)
            self.shapes[key] = name
        return name

    def _cached_shape(self, key: tuple[Any, ...]) -> str | None:
        name = self.shapes.get(key)
        if name is None and self.outer is not None:
            return self.outer._cached_shape(key)
        return name

    def _shape_pieces(self, shape: Sequence[Dim]) -> list[str]:
        """Make a vector for each run of ints or of consecutive axes of one result in the shape.

        If ``x`` is [b, s, 8], ``[2, 3, b, s]`` has the pieces ``[2, 3]`` and ``x.shape[0:2]``.
        """
        pieces: list[str] = []
        start = 0
        while start < len(shape):
            end = start + 1
            if isinstance(shape[start], int):
                while end < len(shape) and isinstance(shape[end], int):
                    end += 1
                ints = [size for size in shape[start:end] if isinstance(size, int)]
                pieces.append(self._make_ints(ints))
            else:
                end = self._run_end(shape, start)
                if end == start + 1:
                    pieces.append(self.dim_vector(shape[start]))
                else:
                    source = self.find_source(str(shape[start]))
                    assert source is not None and source.axis is not None
                    pieces.append(self._read_sizes(source, source.axis + end - start - 1))
            start = end
        return pieces or [self._make_ints([])]

    def _run_end(self, shape: Sequence[Dim], start: int) -> int:
        """Return the index after the sizes from ``start`` that are consecutive axes of a result."""
        first_source = self.find_source(str(shape[start]))
        end = start + 1
        if first_source is None or first_source.axis is None:
            return end
        sizes = self.builder.values[first_source.result].shape
        while (
            end < len(shape)
            and sizes is not None
            and first_source.axis + end - start < len(sizes)
            and dims.always_equal(sizes[first_source.axis + end - start], shape[end])
            and not isinstance(shape[end], int)
        ):
            end += 1
        return end

    def _concat_pieces(self, pieces: list[str], shape: Shape | None) -> str:
        """Concatenate vectors; if ``shape`` is not None, record it as the value of the result."""
        if len(pieces) == 1:
            return pieces[0]
        name = self._make_node("Concat", pieces, axis=0)
        if shape is not None:
            self.builder.values[name].value = tuple(shape)
        return name

    def from_results(self, sizes: Sequence[Any]) -> str:
        """Make an int64[n] result from ints, dimensions, SymInts and names of integer results."""
        builder = self.builder
        resolved: list[Any] = []
        for size in sizes:
            if isinstance(size, str) and not builder.has_name(size):
                if self.find_source(size) is None and self.find_linear(size) is None:
                    raise BuilderError(
                        f"{size!r} in shape {tuple(sizes)} is neither a result nor "
                        f"a known dimension ({builder.tag}){builder.get_debug_msg()}"
                    )
                size = dims.make_symbol(size)
            resolved.append(
                size if isinstance(size, str) else dims.from_torch(size, builder.rename_dims)
            )
        if not any(isinstance(size, str) for size in resolved):
            return self.shape_vector(resolved)
        # A SymDim equals its text, which may also be the name of a result: the key marks results.
        key = tuple(("result", size) if isinstance(size, str) else size for size in resolved)
        name = self._cached_shape(key)
        if name is None:
            name = self._concat_pieces(self._mixed_pieces(resolved), None)
            self.shapes[key] = name
        return name

    def _mixed_pieces(self, sizes: Sequence[Any]) -> list[str]:
        pieces: list[str] = []
        pending_dims: list[Dim] = []
        for size in sizes:
            if isinstance(size, str):
                if pending_dims:
                    pieces.extend(self._shape_pieces(pending_dims))
                    pending_dims = []
                pieces.append(self._as_vector(size))
            else:
                pending_dims.append(size)
        if pending_dims:
            pieces.extend(self._shape_pieces(pending_dims))
        return pieces

    def _as_vector(self, name: str) -> str:
        """Convert a 0-d or 1-d integer result to an int64 vector."""
        info = self.builder.values[name]
        if info.dtype != dtypes.int64:
            name = self._make_node("Cast", [name], to=dtypes.int64)
        return name if info.rank == 1 else self._make_node("Reshape", [name, self._make_ints([1])])

    # -- nodes

    def _make_ints(self, values: list[int]) -> str:
        return self.builder.make_initializer("", np.array(values, dtype=np.int64))

    def _make_op(self, op_type: str, *inputs: str) -> str:
        return self._make_node(op_type, list(inputs))

    def _make_node(self, op_type: str, inputs: list[str], **attrs: Any) -> str:
        result = self.builder.make_node(op_type, inputs, **attrs)
        assert isinstance(result, str)
        return result
