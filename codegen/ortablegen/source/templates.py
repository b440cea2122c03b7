"""The frames of generated files: their first line, and ``templates/*.jinja``, which hold no
logic."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2


def header(specs: str) -> str:
    """Say what a file is generated from."""
    return (
        f"Generated from {specs} by codegen. Do not edit: change the spec, then run `make codegen`."
    )


@cache
def _jinja_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """Fill a file of ``templates``; a name without a value is an error."""
    return _jinja_environment().get_template(template).render(**values)
