"""torch's decomposition of an exported program, run without the containers of its call and with the
constants that decompositions make. functionalize.py calls it.

torch traces the program again through the containers of its arguments and results. What makes a
container may compute (a cache of transformers concatenates its first keys with an empty tensor),
or nobody may have registered its class any more; and torch forgets the tensors that are made on the
way: "Constant tensor lifted_tensor_0 is not in the constants dictionary"."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.export import ExportedProgram

from ortable.compat.torch import constants_lifted_through, pytree, set_constants, set_example_inputs
from ortable.compat.undone import undone

_LOST_CONSTANT = "is not in the constants dictionary"


def decomposed(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """``program.run_decompositions(table)``; ``program`` itself is left as it was."""
    with _flat(program) as restored:
        try:
            made = program.run_decompositions(table)
        except Exception as error:  # torch's verifier
            if _LOST_CONSTANT not in str(error):
                raise
            with _constants_kept(program):
                made = program.run_decompositions(table)
        restored(made)
    return made


@contextmanager
def _flat(program: ExportedProgram) -> Iterator[Any]:
    """In the block the call of ``program`` is a flat one: leaves in, a tuple of leaves out. The
    function that the block gets gives its first argument the call that the program has."""
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    if signature is None:
        yield lambda made: None
        return
    held = signature.in_spec, signature.out_spec, signature.forward_arg_names
    examples = program.example_inputs
    users = list(program.graph_signature.user_inputs)
    names = [node.name for node in program.graph.find_nodes(op="placeholder")]
    names = names[len(names) - len(users) :]

    def restored(made: ExportedProgram) -> None:
        for each in (program, made):
            entry: Any = each.module_call_graph[0].signature
            entry.in_spec, entry.out_spec, entry.forward_arg_names = held
            set_example_inputs(each, examples)

    with undone(lambda: restored(program)):
        signature.in_spec = pytree.tree_structure(((0,) * len(users), {}))
        signature.out_spec = pytree.tree_structure((0,) * signature.out_spec.num_leaves)
        signature.forward_arg_names = names
        # With examples torch adds checks of the inputs by their places in the containers.
        set_example_inputs(program, None)
        yield restored


@contextmanager
def _constants_kept(program: ExportedProgram) -> Iterator[None]:
    """In the block the constants that torch lifts out of a new graph, in this thread, are also
    constants of ``program``, whose own torch gives to the new one."""
    thread = threading.get_ident()
    own = dict(program.constants)

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def kept(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if threading.get_ident() == thread:
                program.constants.update({k: v for k, v in found.items() if k not in own})
            return found

        return kept

    with undone(lambda: set_constants(program, own)), constants_lifted_through(wrapped):
        yield
