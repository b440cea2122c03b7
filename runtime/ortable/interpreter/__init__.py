"""From a torch.fx graph to the nodes of a graph of `ir`: DynamoInterpreter and the records it
leaves. In come FX graphs with metadata and the tables of converters, out go nodes, records and the
errors that name every missing operator; called by `export` and `backend.lower`. Public:
DynamoInterpreter, FunctionNotFoundError, InputRecord, OutputRecord, ConverterTables."""

from __future__ import annotations

from ..errors import FunctionNotFoundError
from .interpreter import DynamoInterpreter
from .records import InputRecord, OutputRecord
from .tables import ConverterTables, generated_tables

__all__ = [
    "ConverterTables",
    "DynamoInterpreter",
    "FunctionNotFoundError",
    "InputRecord",
    "OutputRecord",
    "generated_tables",
]
