"""The frames of generated files: ``templates/*.jinja``, which hold no logic. Asked for by the
emitters, which fill them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2


@cache
def environment() -> jinja2.Environment:
    """Where ``get_template("aten_family.py.jinja")`` is asked; a name without a value is an
    error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
