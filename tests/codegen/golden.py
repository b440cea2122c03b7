"""Golden files of codegen's front ends.

Each entry of ``fail/*.yaml`` is an invalid spec with the errors that codegen prints. Each
``pass/*.yaml`` has a ``.out`` file beside it with the generated Python.

``python -m tests.codegen.golden [aten] [onnx] [rewrites]`` regenerates the files of the named front
ends (default: all) after an intended change. Read the diff before you commit it.
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
class InvalidSpec:
    """An invalid spec, and the errors that codegen prints for it in a file ``name``.yaml."""

    name: str
    spec: str
    errors: str


class _Dumper(yaml.SafeDumper):
    """Write multi-line strings as block scalars."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_table(path: Path) -> list[InvalidSpec]:
    """Read the invalid specs of one topic."""
    return [InvalidSpec(**entry) for entry in yaml.safe_load(path.read_text())]


def write_table(path: Path, entries: Iterable[InvalidSpec]) -> None:
    """Write the invalid specs of one topic."""
    texts = [
        yaml.dump([asdict(entry)], Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)
        for entry in entries
    ]
    path.write_text("\n".join(texts))


@dataclass(frozen=True)
class FrontEnd:
    """A folder of golden files, with the functions that return codegen's errors and its Python."""

    folder: Path
    collect_errors: Callable[[str, str], str]
    generate_python: Callable[[Path], str]

    def tables(self) -> list[Path]:
        """Return the files of invalid specs, one file for each topic."""
        return sorted((self.folder / "fail").glob("*.yaml"))

    def invalid_specs(self) -> list[InvalidSpec]:
        """Return all invalid specs."""
        return [invalid_spec for path in self.tables() for invalid_spec in read_table(path)]

    def get_errors(self, invalid_spec: InvalidSpec) -> str:
        """Return the errors that codegen prints for an invalid spec."""
        return self.collect_errors(invalid_spec.spec, f"{invalid_spec.name}.yaml")

    def valid_files(self) -> list[Path]:
        """Return the files of valid specs."""
        return sorted((self.folder / "pass").glob("*.yaml"))


FRONT_ENDS = {
    name: FrontEnd(module.HERE, module.collect_errors, module.generate_python)
    for name, module in (("aten", aten), ("onnx", onnx), ("rewrites", rewrites))
}


def main() -> None:
    """Regenerate the golden files of the front ends named on the command line."""
    for name in sys.argv[1:] or FRONT_ENDS:
        front = FRONT_ENDS[name]
        for path in front.tables():
            entries = read_table(path)
            write_table(path, [replace(entry, errors=front.get_errors(entry)) for entry in entries])
        for path in front.valid_files():
            path.with_suffix(".out").write_text(front.generate_python(path))


if __name__ == "__main__":
    main()
