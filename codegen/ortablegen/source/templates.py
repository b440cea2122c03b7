"""Render the templates of generated files, ``templates/*.jinja``, which hold no logic."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2


def header(specs: str) -> str:
    """Return the text of the first comment of a generated file, which names its spec files."""
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
    """Render a file of ``templates``; a variable without a value is an error."""
    return _jinja_environment().get_template(template).render(**values)
