"""From a torch.fx graph to the nodes of a graph of `ir`: DynamoInterpreter and the records it
leaves. In come FX graphs with metadata and the tables of converters, out go nodes, records and the
errors that name every missing operator; called by `export` and `backend.lower`. Public:
DynamoInterpreter, FunctionNotFoundError, InputRecord, OutputRecord, ConverterTables. Names are
loaded when first used: some modules beside them are needed where nothing is converted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..errors import FunctionNotFoundError as FunctionNotFoundError
    from .interpreter import DynamoInterpreter as DynamoInterpreter
    from .records import InputRecord as InputRecord
    from .records import OutputRecord as OutputRecord
    from .tables import ConverterTables as ConverterTables
    from .tables import generated_tables as generated_tables

_HOMES = {
    "ConverterTables": "ortable.interpreter.tables",
    "DynamoInterpreter": "ortable.interpreter.interpreter",
    "FunctionNotFoundError": "ortable.errors",
    "InputRecord": "ortable.interpreter.records",
    "OutputRecord": "ortable.interpreter.records",
    "generated_tables": "ortable.interpreter.tables",
}
__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # seen by a type checker, it would make every misspelt name an Any

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value
