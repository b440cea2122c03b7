"""From a torch.fx graph to the nodes of a GraphBuilder: DynamoInterpreter and the records it
leaves. Public: DynamoInterpreter, FunctionNotFoundError, InputRecord, OutputRecord, Tables."""

from __future__ import annotations

from ..errors import FunctionNotFoundError
from .interpreter import DynamoInterpreter
from .records import InputRecord, OutputRecord
from .tables import Tables, generated_tables

__all__ = [
    "DynamoInterpreter",
    "FunctionNotFoundError",
    "InputRecord",
    "OutputRecord",
    "Tables",
    "generated_tables",
]
