"""Options of the torch.compile backend, checked when they are constructed.

An unknown name or a wrong value raises an OptionError that lists the accepted names or values.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ortable.errors import OptionError
from ortable.ir.versions import validate_opset
from ortable.passes.weight_quantization import Stored, WeightOptions, parse_weights

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import RunOptions, SessionOptions

    class ExportOptions(Protocol):
        """The part of `ortable.ExportOptions` that the backend reads."""

        def table(self) -> dict[Any, Callable[..., Any]] | None:
            """Return the decomposition table, or None."""
            ...


_DOMAINS = {"", "com.microsoft", "ai.onnx.ml"}  # domains of the operators that converters emit
_PATHS = {"dump_prefix": "files without their number", "cache_dir": "a folder"}

Provider = str | tuple[str, dict[str, Any]]
Check = Callable[[str, Any], Any]
Transform: TypeAlias = "Callable[[ModelProto], ModelProto | None]"


class OrtOptionsDict(TypedDict, total=False):
    """Names and types of the options, for ``options={...}`` and the keywords of `OrtOptions`.

    `OrtOptions` documents their meaning.
    """

    providers: str | Sequence[Provider] | None
    target_opset: int | Mapping[str, int] | None
    optimize: bool
    rewrites: str | Sequence[str]
    storage: MutableMapping[str, Any] | None
    dump_prefix: str | os.PathLike[str] | None
    verbose: int
    session_options: SessionOptions | Mapping[str, Any] | None
    run_options: RunOptions | Mapping[str, Any] | None
    pre_ort_model_transforms: Transform | Iterable[Transform]
    export_options: ExportOptions | None
    freeze: Literal["auto", "on", "off", "trust"]
    fallback: Literal["eager", "error"] | None
    cache_dir: str | os.PathLike[str] | None
    tune: float | None
    cache_megabytes: int
    cache_days: int
    autotune: bool | Literal["torch"]
    torch_regions: Literal["eager", "inductor", "auto"]
    resizable: bool
    weight_copies: int | None
    hints: bool
    raise_on: Iterable[str]
    weights: Literal["keep", "float32", "int4", "int8"] | Mapping[str, Any] | WeightOptions | None


@dataclass(frozen=True)
class OrtOptions:
    """The options of `torch.compile(..., backend="ortable", options={...})`.

    Args:
        providers: the execution providers of ONNX Runtime that run the graphs, in order of
            preference: names, or pairs ``(name, {option: value})``. By default the device of the
            graph's tensors decides: CPU or CUDA.
        target_opset: the ONNX opset of the graphs, an int or ``{domain: version}``. By default the
            newest one that ONNX Runtime runs.
        optimize: simplify graphs before they run: remove unused nodes and identities, merge equal
            nodes, and apply rewrites. False: run each graph as it was converted.
        rewrites: the rewrite rules that `optimize` applies: ``"default"``, ``"none"``, or a list
            such as ``["default", "-cast_cast", "my_rules.yaml"]``.
        storage: a dict that receives one record for each compiled graph under the key
            ``"instance"``: the ONNX model, the constants, the placement of operators, and the
            seconds per phase.
        dump_prefix: write each graph to ``<prefix>_<n>.onnx``, and its text to a file beside it.
        verbose: how much is printed while graphs are compiled: 0 nothing, 1 a line for each graph,
            2 the FX and ONNX graphs too.
        session_options: settings of the sessions: an `onnxruntime.SessionOptions`, or a dict of its
            attributes (``{"log_severity_level": 0}``) and of its config entries. The defaults stay
            for what neither sets.
        run_options: settings of each run: an `onnxruntime.RunOptions`, or a dict of its attributes
            and config entries.
        pre_ort_model_transforms: one or several functions that change each graph before its session
            is created. A function takes a ModelProto and returns a ModelProto, or None if it edited
            the argument in place.
        export_options: an `ortable.ExportOptions` whose `decomposition_table` lists the operators
            that torch decomposes before the conversion. Its other fields apply only to exports and
            are refused here.
        freeze: which weights become constants of the session, so that ONNX Runtime can fold and
            pack them. ``"auto"``: those of inference graphs. ``"on"``: those of every forward
            graph, for a model that is called with gradients but not trained (training stays correct
            and becomes slower). ``"off"``: none. ``"trust"``: as ``"auto"``, on CUDA too, without
            the check for written weights at each call; call `ortable.refresh` after a write.
        fallback: how to run operators that cannot be converted. ``"eager"``: in torch, between the
            sessions of the other operators, with one warning per operator and process. ``"error"``:
            raise an error that lists all such operators. By default ``"eager"``, but ``"error"`` if
            `raise_on` names operators.
        cache_dir: a folder for converted graphs, so that the next process does not convert them
            again. By default nothing is stored on disk.
        tune: the seconds to spend, for each graph, on searching the fastest settings of ONNX
            Runtime's session on this machine. The settings are stored in memory and in `cache_dir`.
            Graphs with dynamic sizes, and graphs on other providers than the CPU, are not searched,
            with one warning per process.
        cache_megabytes: the maximum size of the folder `cache_dir` in MiB, beyond which the least
            recently read files are removed. 0: no limit.
        cache_days: the number of days after which an unread file in `cache_dir` is removed. 0:
            never.
        autotune: True: ONNX Runtime and torch run the first calls of each graph in turns, and the
            faster one runs the later calls. False: ONNX Runtime runs all graphs. ``"torch"``: torch
            runs all graphs and nothing is converted, as a baseline.
        torch_regions: how torch runs graphs of which no operator runs in ONNX Runtime, networks of
            convolutions in training for example. ``"eager"``: with its own kernels.
            ``"inductor"``: compiled by inductor, which needs a C++ compiler. ``"auto"``: both run
            the first calls in turns, and the faster one runs the later calls; with `autotune`,
            inductor is also a candidate for the graphs that ONNX Runtime runs.
        resizable: return results in memory that torch allocated, which `resize_` and `out=` can
            enlarge or free. Each result is then copied once.
        weight_copies: how many sessions may hold a copy of the same weights as constants. Further
            graphs, for other sizes for example, read the weights in torch's memory, which is slower
            and takes no memory. By default there is no limit.
        hints: warn, once per process, about causes of slow execution: gradients of a module in eval
            mode, operators that cannot be converted, and graphs that `tune` cannot search.
        raise_on: operators to refuse, to test a fallback or torch's minifier: names such as
            ``"aten::relu"`` and ``"cond"``.
        weights: ``"int4"`` or ``"int8"``: quantize the weights of linear layers and embeddings to
            integers; a `WeightOptions`, or a dict of its fields, selects layers and method. For
            models in bfloat16 and float16: ``"keep"`` leaves their matrices only in torch's memory
            and casts them at each call; ``"float32"`` stores them in the session in float32, and
            refuses a graph whose weights cannot become constants. None: float32 where weights
            become constants. All values but ``"keep"`` are for inference.

    Raises:
        OptionError: if an option is unknown, a value is not accepted, or two options contradict
            each other.
    """

    providers: tuple[Provider, ...] | None = None
    target_opset: int | Mapping[str, int] | None = None
    optimize: bool = True
    rewrites: tuple[str, ...] = ("default",)
    storage: MutableMapping[str, Any] | None = None
    dump_prefix: str | None = None
    verbose: int = 0
    session_options: SessionOptions | dict[str, Any] | None = None
    run_options: RunOptions | dict[str, Any] | None = None
    pre_ort_model_transforms: tuple[Transform, ...] = ()
    export_options: ExportOptions | None = None
    freeze: Literal["auto", "on", "off", "trust"] = "auto"
    fallback: Literal["eager", "error"] | None = None
    cache_dir: str | None = None
    tune: float | None = None
    cache_megabytes: int = 2048
    cache_days: int = 90
    autotune: bool | Literal["torch"] = False
    torch_regions: Literal["eager", "inductor", "auto"] = "eager"
    resizable: bool = False
    weight_copies: int | None = None
    hints: bool = True
    raise_on: tuple[str, ...] = ()
    weights: WeightOptions | Stored | None = None

    if TYPE_CHECKING:  # the accepted types are wider than the types of the checked fields

        def __init__(self, **options: Unpack[OrtOptionsDict]) -> None: ...

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.fallback is None:
            object.__setattr__(self, "fallback", "error" if self.raise_on else "eager")
        if not self.optimize and self.rewrites not in (("default",), ("none",)):
            raise OptionError(
                f"Option 'rewrites' is {list(self.rewrites)}, but 'optimize' is False, which "
                "disables all rewrites. Remove one of the two."
            )
        if self.weights not in (None, "keep") and self.freeze == "off":
            raise OptionError(
                "Option 'weights' quantizes or casts constant weights, but 'freeze' is 'off', so "
                "no weight is constant. Remove one of the two."
            )
        if isinstance(self.weights, WeightOptions) and self.autotune:
            raise OptionError(
                "Option 'weights' changes the results of the model, but 'autotune' may run it in "
                "torch with the original weights. Remove one of the two."
            )
        if self.tune is not None and type(self.session_options).__name__ == "SessionOptions":
            raise OptionError(
                "Option 'tune' searches session settings, but 'session_options' is a "
                "SessionOptions object, which is used unchanged. Give a dict of settings, or "
                "remove one of the two."
            )

    @classmethod
    def from_mapping(cls, *sources: Mapping[str, Any] | None) -> OrtOptions:
        """Make options from mappings of names to values; a value of None means "not given".

        Args:
            sources: mappings of option names to values; None is an empty mapping.

        Raises:
            OptionError: if a name is unknown or given twice, or a value is not accepted.
        """
        names = [f.name for f in fields(cls)]
        merged: dict[str, Any] = {}
        for source in sources:
            if source is None:
                continue
            if not isinstance(source, Mapping):
                raise OptionError(
                    f"options must be a dict of option names, not {type(source).__name__}."
                )
            for name, value in source.items():
                if name not in names:
                    raise OptionError(_unknown_option(name, names))
                if value is None:
                    continue
                if name in merged:
                    raise OptionError(f"Option {name!r} is given twice; give it once.")
                merged[name] = value
        return cls(**merged)


def _unknown_option(name: object, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown option {name!r}.{hint} All: {', '.join(sorted(names))}."


def _wrong_value(name: str, value: object, expected: str) -> OptionError:
    return OptionError(
        f"Option {name!r} must be {expected}, got {value!r} of type {type(value).__name__}."
    )


def _check_providers(name: str, value: Any) -> tuple[Provider, ...] | None:
    expected = "a list of provider names or (name, {option: value}) pairs, not empty"
    if value is None:
        return None
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, list | tuple) or not value:
        raise _wrong_value(name, value, expected)
    for item in value:
        is_pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
        if not isinstance(item, str) and not (is_pair and isinstance(item[1], dict)):
            raise _wrong_value(name, value, expected)
    names = [item if isinstance(item, str) else item[0] for item in value]
    if not all(map(str.strip, names)):
        raise _wrong_value(name, value, f"{expected}: a name may not be empty")
    duplicates = sorted({provider for provider in names if names.count(provider) > 1})
    if duplicates:
        raise _wrong_value(
            name, value, f"a list that names each provider once ({', '.join(duplicates)})"
        )
    return tuple(value)


def _check_opset(name: str, value: Any) -> Any:
    try:
        opsets = validate_opset(value)
    except OptionError as error:
        raise OptionError(f"Option {name!r}: {error}.") from None
    if isinstance(opsets, dict) and not opsets.keys() <= _DOMAINS:
        raise _wrong_value(
            name,
            value,
            "an opset number or a dict of domains ('', 'com.microsoft', 'ai.onnx.ml') to versions",
        )
    return opsets


def _one_of(*accepted: Any) -> Check:
    *leading, last = map(repr, accepted)

    def check(name: str, value: Any) -> Any:
        for option in accepted:  # compare by identity: 1 == True
            if value is option or (isinstance(value, str) and value == option):
                return option
        raise _wrong_value(name, value, f"{', '.join(leading)} or {last}")

    return check


def _int_at_least(minimum: int, expected: str) -> Check:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise _wrong_value(name, value, expected)
        return value

    return check


def _or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _check_storage(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, MutableMapping):
        raise _wrong_value(name, value, "a dict")
    return value


def _check_path(name: str, value: Any) -> str:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path.strip():
        raise _wrong_value(name, value, f"the path of {_PATHS[name]}, a str or a Path, not empty")
    return os.path.expanduser(path)


def _check_seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise _wrong_value(name, value, "a number of seconds above 0")
    return float(value)


def _check_verbose(name: str, value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= 2:
        raise _wrong_value(name, value, "0, 1 or 2")
    return int(value)


def _check_ort_options(name: str, value: Any) -> Any:
    class_name = "SessionOptions" if name == "session_options" else "RunOptions"
    if value is None or type(value).__name__ == class_name:
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise _wrong_value(name, value, f"an onnxruntime.{class_name} or a dict of its settings")


def _check_transforms(name: str, value: Any) -> tuple[Transform, ...]:
    values = (value,) if callable(value) else value
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise _wrong_value(name, value, "a callable or a list of callables")
    values = tuple(values)
    if isinstance(value, Mapping) or not all(callable(function) for function in values):
        raise _wrong_value(name, value, "a callable or a list of callables")
    return values


def _check_export_options(name: str, value: Any) -> Any:
    if type(value).__name__ != "ExportOptions":
        raise _wrong_value(name, value, "an ortable.ExportOptions")
    default = type(value)()
    field_names = [f.name for f in fields(value) if f.name != "decomposition_table"]
    unsupported = [
        field_name
        for field_name in field_names
        if getattr(value, field_name) != getattr(default, field_name)
    ]
    if unsupported:
        raise OptionError(
            f"Option {name!r}: the backend reads only decomposition_table and would ignore "
            f"{', '.join(unsupported)}, which only to_onnx reads. Remove it."
        )
    return value


def _check_rewrites(name: str, value: Any) -> tuple[str, ...]:
    from ortable.passes.rewrite.rule_selection import select_rules

    select_rules(value)
    return (value,) if isinstance(value, str) else tuple(value)


def _check_weights(name: str, value: Any) -> WeightOptions | Stored | None:
    try:
        weights = parse_weights(value)
    except OptionError as error:
        raise OptionError(f"Option {name!r}: {error}.") from None
    if isinstance(weights, WeightOptions) and weights.is_half:
        raise OptionError(
            f"Option {name!r}: float16 is for exports (ortable.export). In torch.compile, compile "
            "model.half()."
        )
    return weights


def _check_names(name: str, value: Any) -> tuple[str, ...]:
    expected = "a list of operator names such as 'aten::relu'"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong_value(name, value, expected)
    values = tuple(value)
    if not all(isinstance(operator, str) for operator in values):
        raise _wrong_value(name, value, expected)
    for operator in values:
        if not _is_operator(operator):
            raise OptionError(
                f"Option {name!r}: torch has no operator {operator!r}. Give the name of a schema "
                "('aten::relu'), optionally with an overload ('aten::add.Tensor'), or of a "
                "higher-order operator ('cond')."
            )
    return tuple(operator.removesuffix(".default") for operator in values)


def _is_operator(name: str) -> bool:
    """Whether torch has an operator, an overload or a higher-order operator of this name."""
    from ortable.compat.torch import higher_order_operators, schemas_of_packet

    if "::" not in name:
        return name in higher_order_operators
    packet, _, overload = name.partition(".")
    schemas = schemas_of_packet(packet)
    overloads = {schema.overload_name or "default" for schema in schemas}
    return (overload in overloads) if overload else bool(overloads)


_CHECKS: dict[str, Check] = {
    "providers": _check_providers,
    "target_opset": _or_none(_check_opset),
    "optimize": _one_of(True, False),
    "rewrites": _check_rewrites,
    "storage": _check_storage,
    "dump_prefix": _or_none(_check_path),
    "verbose": _check_verbose,
    "session_options": _check_ort_options,
    "run_options": _check_ort_options,
    "pre_ort_model_transforms": _check_transforms,
    "export_options": _or_none(_check_export_options),
    "freeze": _one_of("auto", "on", "off", "trust"),
    "fallback": _one_of(None, "eager", "error"),
    "cache_dir": _or_none(_check_path),
    "tune": _or_none(_check_seconds),
    "cache_megabytes": _int_at_least(0, "a whole number, 0 for no limit"),
    "cache_days": _int_at_least(0, "a whole number, 0 for no limit"),
    "autotune": _one_of(True, False, "torch"),
    "torch_regions": _one_of("eager", "inductor", "auto"),
    "resizable": _one_of(True, False),
    "weight_copies": _or_none(_int_at_least(1, "None or a number of sessions, 1 or more")),
    "hints": _one_of(True, False),
    "raise_on": _check_names,
    "weights": _check_weights,
}
