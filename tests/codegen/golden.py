"""Golden files of codegen's front ends: each entry of ``fail/*.yaml`` of a front end's folder is a
wrong spec and the errors that codegen prints, each ``pass/*.yaml`` has the Python beside it that it
generates.

``python -m tests.codegen.golden`` rewrites them after a wanted change, those of the front ends that
are named (``aten``, ``onnx``, ``rewrites``) or all; read the diff before you commit it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml

from .aten import golden as aten
from .onnx import golden as onnx
from .rewrites import golden as rewrites


@dataclass(frozen=True)
class Refused:
    """A spec that is wrong, and what codegen prints for it in a file ``name``.yaml."""

    name: str
    spec: str
    errors: str


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_table(path: Path) -> list[Refused]:
    """The specs of one topic."""
    return [Refused(**entry) for entry in yaml.safe_load(path.read_text())]


def write_table(path: Path, entries: Iterable[Refused]) -> None:
    """Writes the specs of one topic."""
    texts = [
        yaml.dump([asdict(entry)], Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)
        for entry in entries
    ]
    path.write_text("\n".join(texts))


@dataclass(frozen=True)
class FrontEnd:
    """A folder of golden files, and what codegen says and makes of a file."""

    folder: Path
    errors_of: Callable[[str, str], str]
    python_of: Callable[[Path], str]

    def tables(self) -> list[Path]:
        """Files of specs that are refused, one for a topic."""
        return sorted((self.folder / "fail").glob("*.yaml"))

    def wrong(self) -> list[Refused]:
        """Specs that are refused."""
        return [refused for path in self.tables() for refused in read_table(path)]

    def refuse(self, refused: Refused) -> str:
        """What codegen prints for a spec."""
        return self.errors_of(refused.spec, f"{refused.name}.yaml")

    def right(self) -> list[Path]:
        """Files that are compiled."""
        return sorted((self.folder / "pass").glob("*.yaml"))


FRONT_ENDS = {
    name: FrontEnd(module.HERE, module.errors_of, module.python_of)
    for name, module in (("aten", aten), ("onnx", onnx), ("rewrites", rewrites))
}


def main() -> None:
    """Rewrite golden files."""
    for name in sys.argv[1:] or FRONT_ENDS:
        front = FRONT_ENDS[name]
        for path in front.tables():
            entries = read_table(path)
            write_table(path, [replace(each, errors=front.refuse(each)) for each in entries])
        for path in front.right():
            path.with_suffix(".out").write_text(front.python_of(path))


if __name__ == "__main__":
    main()
