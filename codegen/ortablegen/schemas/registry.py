"""Look up operator schemas: for users' specs in the installed torch, for ortable's in a record."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeAlias

from .ranges import (
    ALWAYS,
    Version,
    VersionRange,
    format_range,
    format_version,
    listed,
    parse_version,
)
from .torch import OpSchema, SchemaProblem, from_torch_schema, key_of_schema, parsed_schema


@dataclass(frozen=True)
class TorchVersions:
    """The torch versions of an entry, and the schemas of versions that differ from its own."""

    present: VersionRange = ALWAYS
    others: tuple[tuple[VersionRange, str], ...] = ()

    def has(self, version: Version) -> bool:
        """Whether the entry is for torch ``version``."""
        return self.present.contains(version)

    def text(self, own: str, version: Version) -> str:
        """Return the schema for torch ``version``: from ``others``, else ``own``, the entry's."""
        return next(
            (text for version_range, text in self.others if version_range.contains(version)), own
        )


EVERY_VERSION = TorchVersions()


Registry: TypeAlias = "InstalledTorch | Record"


# -- the installed torch


@cache
def installed_torch() -> Version:
    """Return the major and minor version of the installed torch."""
    import torch

    return parse_version(torch.__version__)


@cache
def import_problem(module: str) -> str | None:
    """Import ``module``, which registers operators; return why that failed, or None."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a package built for another torch may raise anything
        first_line = str(error).strip().splitlines()[:1]
        return f"{module} cannot be imported: {type(error).__name__}: {''.join(first_line)}"
    return None


def registered_schema(key: str) -> Any:
    """Return the installed torch's schema object for ``key``, or None."""
    import torch

    name, _, overload = key.partition(".")
    namespace, _, operator = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)
        return getattr(packet, overload or "default")._schema
    except (AttributeError, RuntimeError):
        return None


_ALIASES = re.compile(r"\((\w+(?:\|\w+)+)\)")


def canonical_text(text: str) -> str:
    """Return a schema's text on one line, with its alias sets sorted: ``Tensor(a|b)``."""
    return _ALIASES.sub(
        lambda match: "(" + "|".join(sorted(match[1].split("|"))) + ")", " ".join(text.split())
    )


class InstalledTorch:
    """The operators that torch has registered in this process."""

    is_record = False

    @property
    def versions(self) -> tuple[Version, ...]:
        """The installed version."""
        return (installed_torch(),)

    def is_complete_for(self, key: str) -> bool:
        """Return True: an operator that this process has not registered does not exist."""
        return True

    def text(self, key: str, version: Version) -> str | None:
        """Return the installed schema of ``key``, or None; ``version`` is the installed version."""
        schema = registered_schema(key)
        return canonical_text(str(schema)) if schema is not None else None

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The overloads of the ``aten`` and ``prims`` namespaces, for spelling hints."""
        names = {key_of_schema(schema) for schema in _all_schemas()}
        return tuple(sorted(name for name in names if name.startswith(("aten::", "prims::"))))

    def overloads(self, name: str) -> tuple[OpSchema, ...]:
        """Return the schemas of all overloads of ``name``, such as ``aten::add``."""
        import torch

        namespace, _, operator = name.partition("::")
        packet: Any = getattr(getattr(torch.ops, namespace), operator, None)
        names = packet.overloads() if packet is not None else ()
        return tuple(from_torch_schema(getattr(packet, overload)._schema) for overload in names)

    @cached_property
    def argument_names(self) -> frozenset[str]:
        """Every argument name of every operator."""
        return frozenset(a.name for schema in _all_schemas() for a in schema.arguments)


def _all_schemas() -> list[Any]:
    import torch

    return torch._C._jit_get_all_schemas()


INSTALLED = InstalledTorch()


# Namespaces whose operators torch registers. The record has all of them that write into nothing.
NAMESPACES = (
    "_c10d_functional", "aten", "export", "inductor", "onnx", "prims", "quantized_decomposed",
)  # fmt: skip


@dataclass(frozen=True)
class Record:
    """The contents of `torch_schemas.txt`: overload -> version -> schema text."""

    versions: tuple[Version, ...]
    texts: Mapping[str, Mapping[Version, str]] = field(repr=False)
    is_record = True

    def is_complete_for(self, key: str) -> bool:
        """Whether torch has no functional operator ``key`` if the record lacks it."""
        return key.partition("::")[0] in NAMESPACES

    def text(self, key: str, version: Version) -> str | None:
        """Return the schema of ``key`` (``aten::add.Tensor``) in torch ``version``, or None."""
        return self.texts.get(key, {}).get(version)

    @property
    def keys(self) -> Iterable[str]:
        """The recorded overloads, for spelling hints."""
        return self.texts

    def overloads(self, name: str) -> tuple[OpSchema, ...]:
        """Return the newest schemas of the overloads of ``aten::add`` that every version has."""
        return tuple(
            from_torch_schema(parsed_schema(self.texts[key][self.versions[-1]]))
            for key in self._by_name.get(name, ())
            if len(self.texts[key]) == len(self.versions)
        )

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for key in sorted(self.texts):
            by_name.setdefault(key.partition(".")[0], []).append(key)
        return by_name

    @cached_property
    def argument_names(self) -> frozenset[str]:
        """Every argument name of every operator."""
        texts = {text for by_version in self.texts.values() for text in by_version.values()}
        return frozenset(a.name for text in texts for a in parsed_schema(text).arguments)

    def of(self, version: Version) -> dict[str, str]:
        """Return overload -> schema text in torch ``version``."""
        return {
            key: by_version[version]
            for key, by_version in self.texts.items()
            if version in by_version
        }

    def with_version(self, version: Version, schemas: Mapping[str, str]) -> Record:
        """Return a copy in which ``schemas`` are all that torch ``version`` has."""
        texts = {
            key: {v: text for v, text in by_version.items() if v != version}
            for key, by_version in self.texts.items()
        }
        for key, text in schemas.items():
            texts.setdefault(key, {})[version] = text
        present = {key: by_version for key, by_version in texts.items() if by_version}
        return Record(tuple(sorted({*self.versions, version})), present)


# -- the schema of an entry


def schema_of(
    text: str,
    registry: Registry = INSTALLED,
    requires: str | None = None,
    versions: TorchVersions = EVERY_VERSION,
) -> OpSchema:
    """Parse the schema ``text``, and check that it equals torch's in every version of the entry.

    Args:
        text: the schema as torch prints it.
        registry: the schemas to compare with.
        requires: the module that registers the operator. ``text`` is not compared if the registry
            is a record without the operator's namespace, or if the module cannot be imported.
        versions: the torch versions that the entry is for.

    Raises:
        SchemaProblem: the text cannot be parsed, torch lacks the operator in one of the versions,
            or has another schema for it.
    """
    parsed = parsed_schema(text)
    key = key_of_schema(parsed)
    for _, other in versions.others:
        _check_other_schema(parsed, parsed_schema(other))
    entry_schema = from_torch_schema(parsed)
    if entry_schema.is_mutable and registry.is_record:
        return entry_schema  # the caller refuses it; the record lacks most mutable operators
    if not registry.is_complete_for(key):
        if requires is None:
            raise SchemaProblem(
                f"'{key}' is not an operator that torch itself registers",
                fix="name the module that registers it: requires: package",
            )
        return entry_schema
    if requires is not None and not registry.is_record and import_problem(requires) is not None:
        return entry_schema
    entry_versions = _entry_versions(registry, versions)
    registered = {version: registry.text(key, version) for version in entry_versions}
    _check_present(key, registered, registry)
    differing = [
        v for v in entry_versions if registered[v] != canonical_text(versions.text(text, v))
    ]
    if not differing:
        return entry_schema
    by_text = {
        registered[version]: [v for v in differing if registered[v] == registered[version]]
        for version in differing
    }
    if len(differing) == len(registry.versions) and len(by_text) == 1:
        owner, notes = "torch's", tuple(f"torch has: {other_text}" for other_text in by_text)
    else:
        owner = f"that of torch {listed(differing)}"
        notes = tuple(
            f"in torch {listed(schema_versions)} it is: {other_text}"
            for other_text, schema_versions in by_text.items()
        )
    raise SchemaProblem(
        f"the schema of '{key}' differs from {owner}",
        notes,
        _other_schemas(by_text, registry) if len(differing) < len(registry.versions) else None,
    )


def schema_of_key(
    key: str,
    registry: Registry = INSTALLED,
    requires: str | None = None,
    versions: TorchVersions = EVERY_VERSION,
) -> OpSchema:
    """Return the schema of ``key`` (``aten::add.Tensor``) in the newest version of the entry.

    Older versions may differ only in types and in names of positional arguments.

    Raises:
        SchemaProblem: the schema is unknown, differs more between versions, or a version lacks the
            overload; if all lack it, the notes name similar ones.
    """
    if not registry.is_complete_for(key):
        problem = import_problem(requires) if requires is not None else None
        notes = (problem,) if problem is not None else ()
        fix = "write an op entry: its line is the schema" if problem is None else None
        raise SchemaProblem(f"the schema of '{key}' is unknown", notes, fix)
    problem = import_problem(requires) if requires and not registry.is_record else None
    registered = {v: registry.text(key, v) for v in _entry_versions(registry, versions)}
    if registry.is_record and not any(registered.values()):
        # the caller refuses an overload that writes, with an error that says so
        mutable_schema = registered_schema(key)
        if mutable_schema is not None and mutable_schema.is_mutable:
            return from_torch_schema(mutable_schema)
    if problem is not None and not any(registered.values()):
        raise SchemaProblem(f"the schema of '{key}' is unknown", notes=(problem,))
    _check_present(key, registered, registry)
    parsed = [parsed_schema(text) for _, text in sorted(registered.items()) if text is not None]
    for other in parsed[:-1]:
        _check_other_schema(parsed[-1], other)
    return from_torch_schema(parsed[-1])


def _entry_versions(registry: Registry, versions: TorchVersions) -> list[Version]:
    entry_versions = [version for version in registry.versions if versions.has(version)]
    if not entry_versions and registry.is_record:
        raise SchemaProblem(
            f"'torch: {versions.present}' contains no supported version of torch",
            notes=(f"supported are {listed(registry.versions)}",),
        )
    return entry_versions


def _check_present(key: str, registered: dict[Version, str | None], registry: Registry) -> None:
    """Raise `SchemaProblem` if a version that the entry is for lacks the operator."""
    missing = [version for version, text in registered.items() if text is None]
    if not missing:
        return
    if len(missing) < len(registered):
        present_range = format_range(set(registered) - set(missing), registry.versions)
        raise SchemaProblem(
            f"there is no operator '{key}' in torch {listed(missing)}",
            fix=f'give the versions that have it: torch: "{present_range or ">=2.14, <2.16"}"',
        )
    close_keys = difflib.get_close_matches(key, registry.keys, n=3, cutoff=0.6)
    notes = (f"did you mean {', '.join(close_keys)}?",) if close_keys else ()
    if len(missing) < len(registry.versions):
        notes = (f"the entry is only for torch {listed(missing)}",)
    fix = None
    if not close_keys and not registry.is_record and not key.startswith("aten::"):
        fix = "import the module that registers it first; in the shell: --import MODULE"
    raise SchemaProblem(f"torch has no operator '{key}'", notes=notes, fix=fix)


def _other_schemas(by_text: dict[str | None, list[Version]], registry: Registry) -> str:
    """Format the ``torch:`` mapping of version ranges to schemas that the entry lacks."""
    pairs = [
        f'"{format_range(group, registry.versions) or "==" + format_version(group[0])}": "{text}"'
        for text, group in by_text.items()
    ]
    return f"torch: {{{', '.join(pairs)}}}, or write a separate entry for each range of versions"


def _check_other_schema(entry_schema: Any, other_schema: Any) -> None:
    """Raise `SchemaProblem` unless schemas differ only in types and positional argument names."""
    key = key_of_schema(entry_schema)
    if key_of_schema(other_schema) != key:
        raise SchemaProblem(
            f"'torch' gives a schema of '{key_of_schema(other_schema)}', not of '{key}'"
        )
    argument_kinds = [
        [(a.kwarg_only, a.has_default_value()) for a in s.arguments]
        for s in (entry_schema, other_schema)
    ]
    keyword_names = [
        [a.name for a in s.arguments if a.kwarg_only] for s in (entry_schema, other_schema)
    ]
    if (
        argument_kinds[0] != argument_kinds[1]
        or keyword_names[0] != keyword_names[1]
        or len(entry_schema.returns) != len(other_schema.returns)
    ):
        raise SchemaProblem(
            f"the schemas of '{key}' differ in more than argument names and types",
            notes=("one converter serves all versions that an entry is for",),
            fix='write an entry for each range of versions: torch: "<2.15", torch: ">=2.15"',
        )
