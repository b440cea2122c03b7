"""``python -m ortablegen``: generate ``generated/`` from ``specs/``, and check that it is fresh.

Other verbs record the schemas of the installed torch, record ONNX Runtime's kernel table, and
format spec files.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from ortablegen.aten.check import check_specs
from ortablegen.aten.coverage import (
    CASES,
    build_coverage,
    emit_coverage,
    load_cases,
    load_measured,
    operators_page,
)
from ortablegen.aten.emit import count_escapes, emit_aten
from ortablegen.aten.model import Specs
from ortablegen.aten.read import compare_external, read_folder
from ortablegen.language.precision import read_numbers
from ortablegen.language.served import load_kernels
from ortablegen.language.vocabulary import insert_core_functions
from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.onnx.traits import TRAITS
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import emit_rewrites
from ortablegen.rewrites.model import Rewrite
from ortablegen.rewrites.read import read_rewrites
from ortablegen.runtime_tables.float16_rules import emit_float16
from ortablegen.runtime_tables.foreach import emit_foreach
from ortablegen.runtime_tables.kernels import (
    emit_cuda_kernels,
    emit_kernels,
    installed_kernels,
    read_cuda_kernels,
    write_kernel_fixes,
    write_kernel_table,
)
from ortablegen.runtime_tables.older_opsets import emit_older_opsets
from ortablegen.runtime_tables.operators import emit_decompositions, emit_operator_costs
from ortablegen.runtime_tables.optimizers import emit_optimizers, optimizers_page, read_optimizers
from ortablegen.runtime_tables.sessions import emit_settings, read_settings, settings_page
from ortablegen.schemas.ranges import format_version, listed
from ortablegen.schemas.record import PLACE, compare_installed, read_record, record_installed
from ortablegen.schemas.registry import installed_torch
from ortablegen.source.diagnostics import Diagnostics, SpecErrors
from ortablegen.source.layout import WIDTH, format_yaml, long_lines
from ortablegen.source.writer import WriteReport, compare_tree, write_tree
from ortablegen.stamp import write_stamp


@dataclass(frozen=True)
class Generated:
    """The output of codegen, and the specs and rewrites that it was generated from.

    ``files`` has texts by path relative to generated/, ``pages`` relative to the repository.
    """

    files: dict[str, str]
    pages: dict[str, str]
    specs: Specs
    rewrites: tuple[Rewrite, ...] = ()


def generate(root: Path) -> Generated:
    """Generate the text of all files and pages of the repository at ``root``; write nothing.

    Raises:
        SpecErrors: the specs have errors; it lists all of them.
    """
    diagnostics = Diagnostics()
    runtime = root / "specs" / "runtime"
    cpu = runtime / "kernels_cpu.yaml"
    record = read_record(root / PLACE)
    specs = read_folder(root / "specs" / "aten", root, diagnostics)
    rules = load_onnx_rules(root / "specs" / "onnx", diagnostics)
    traits = {name: rules.operators_with(name) for name in TRAITS}
    tables = emit_kernels(cpu)
    numbers = read_numbers(cpu)
    kernels = load_kernels(tables, traits["dtype_sensitive"])
    check_specs(specs, diagnostics, kernels=kernels, numbers=numbers)
    rewrites = read_rewrites(root / "specs" / "rewrites", root, diagnostics, traits)
    check_rewrites(rewrites, diagnostics, numbers)
    diagnostics.raise_if_any()
    optimizers = read_optimizers(runtime / "optimizers.yaml", diagnostics)
    settings = read_settings(runtime / "session.yaml", diagnostics)
    rows = build_coverage(
        specs, load_measured(runtime / "conformance.yaml"), load_cases(root / CASES)
    )
    files = {
        "ortable_generated/__init__.py": _PACKAGE,
        **emit_aten(specs),
        **emit_onnx_rules(rules),
        **emit_rewrites(rewrites),
        **tables,
        **emit_cuda_kernels(
            runtime / "kernels_cuda.yaml", cpu, runtime / "kernels_cuda_rounded.yaml"
        ),
        **emit_decompositions(runtime / "decompositions.yaml", diagnostics, record),
        **emit_float16(runtime / "float16.yaml", diagnostics),
        **emit_foreach(runtime / "foreach.yaml", diagnostics, record),
        **emit_operator_costs(runtime / "operator_cost.yaml", diagnostics, record),
        **emit_older_opsets(runtime / "older_opsets.yaml", diagnostics),
        **emit_optimizers(optimizers),
        **emit_settings(settings),
        **emit_coverage(rows),
    }
    diagnostics.raise_if_any()
    pages = {
        "docs/operators.md": operators_page(rows, specs),
        "docs/optimizers.md": optimizers_page(optimizers),
        "docs/sessions.md": settings_page(settings),
    }
    language = root / "docs" / "language.md"
    if language.exists():
        pages["docs/language.md"] = insert_core_functions(language.read_text(encoding="utf-8"))
    return Generated(files, pages, specs, rewrites)


_PACKAGE = '''# Generated by codegen. Do not edit: change the spec, then run `make codegen`.
"""What codegen makes of specs/: converters, ONNX rules, tables. Checked in, never edited."""
'''


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ortablegen",
        description=__doc__,
        epilog="Every verb needs a checkout of ortable, which has specs/. Without a checkout: "
        "`ortable specs check FILE` checks your own spec file, `ortable.load_specs` loads it.",
    )
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("files", nargs="*", type=Path, help="files to format (default: all specs)")
    parser.add_argument(
        "--check", action="store_true", help="with format: only report the long lines"
    )
    parser.add_argument(
        "--root", type=Path, default=Path.cwd(), help="the repository (default: the current folder)"
    )
    options = parser.parse_intermixed_args(arguments)
    if options.verb != "format" and (options.files or options.check):
        parser.error("only 'format' takes files and --check")
    if not (options.root / "specs" / "aten").is_dir():
        print(_no_checkout(options.root.resolve()), file=sys.stderr)
        return 2
    return VERBS[options.verb](options)


def _format(options: argparse.Namespace) -> int:
    """Format YAML files, or with ``--check`` only report the lines that are too long."""
    status = 0
    for path in options.files or sorted((options.root / "specs").rglob("*.yaml")):
        old_text = path.read_text(encoding="utf-8")
        try:
            new_text = old_text if options.check else format_yaml(old_text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            position = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
            print(f"{path}{position}: error: {error.problem}")
            status = 1
            continue
        if new_text != old_text:
            path.write_text(new_text, encoding="utf-8")
        for number in long_lines(new_text):
            status = 1
            fix = "run `python -m ortablegen format`" if options.check else "break it by hand"
            print(f"{path}:{number}: more than {WIDTH} columns; {fix}")
    return status


def _record_kernels(options: argparse.Namespace) -> int:
    """Record the installed ONNX Runtime's CUDA kernels, or its CPU kernels and ONNX's schemas."""
    folder = options.root / "specs" / "runtime"
    if options.verb == "kernels":
        write_kernel_table(folder / "kernels_cpu.yaml")
    else:
        (folder / "kernels_cuda.yaml").write_text(
            read_cuda_kernels(installed_kernels()), encoding="utf-8"
        )
    return 0


def _record_kernel_fixes(options: argparse.Namespace) -> int:
    """Record the kernels that the installed, newer ONNX Runtime fixed; print its regressions."""
    runtime = options.root / "specs" / "runtime"
    regressions = write_kernel_fixes(runtime / "kernel_fixes.yaml", runtime / "kernels_cpu.yaml")
    print("\n".join(regressions) or "no kernel is less exact than kernels_cpu.yaml records")
    return int(bool(regressions))


def _record_schemas(options: argparse.Namespace) -> int:
    print(record_installed(options.root / PLACE))
    return 0


def _generate(options: argparse.Namespace) -> int:
    """Generate everything, then write it or (``check``) compare it with the checked-in files."""
    start = time.perf_counter()
    try:
        generated = generate(options.root)
    except SpecErrors as error:
        print(error, file=sys.stderr)
        print(f"{len(error.diagnostics.errors)} error(s); nothing was written", file=sys.stderr)
        return 1
    is_record_stale = _report_record(options.root / PLACE, generated.specs, options.verb)
    folder = options.root / "generated"
    pages = {options.root / name: text for name, text in generated.pages.items()}
    stale_pages = [
        page
        for page, text in pages.items()
        if not page.exists() or page.read_text(encoding="utf-8") != text
    ]
    if options.verb == "check":
        status = _report_stale(compare_tree(generated.files, folder), generated.files, folder)
        for page in stale_pages:
            relative = page.relative_to(options.root)
            print(f"stale: {relative}; run `make codegen` and commit the result")
        return status or int(bool(stale_pages) or is_record_stale)
    report = write_tree(generated.files, folder)
    for page in stale_pages:
        page.parent.mkdir(exist_ok=True)
        page.write_text(pages[page], encoding="utf-8")
    if not is_record_stale:
        write_stamp(options.root)
    _report_written(generated, report, time.perf_counter() - start)
    return 0


def _report_written(generated: Generated, report: WriteReport, seconds: float) -> None:
    specs = generated.specs
    entries, functions = count_escapes(specs)
    share = 100 * entries / max(1, len(specs.ops) + len(specs.hops))
    print(
        f"{len(specs.ops)} operators, {len(specs.aliases)} aliases, {len(specs.calls)} callables"
        f" and methods; {entries} entries ({share:.1f}%) use {functions} Python lowerings;"
        f" {len(generated.rewrites)} rewrites;"
        f" {len(report.written)}"
        f" files written, {len(report.deleted)} deleted, {report.unchanged} unchanged"
        f" ({seconds:.1f} s)"
    )


VERBS = {
    "generate": _generate,
    "check": _generate,
    "format": _format,
    "record-schemas": _record_schemas,
    "kernels": _record_kernels,
    "kernels-cuda": _record_kernels,
    "kernel-fixes": _record_kernel_fixes,
}


def _no_checkout(root: Path) -> str:
    """Format the error for a folder without specs, such as after `pip install ortable`."""
    parent_checkout = next(
        (parent for parent in root.parents if (parent / "specs" / "aten").is_dir()), None
    )
    suggested_root = parent_checkout or "PATH"
    return (
        f"{root} is not a checkout of ortable: it has no specs/aten.\n"
        "python -m ortablegen compiles the specs of a checkout to generated/. An installed\n"
        "ortable contains the compiled tables and does not need this command.\n"
        f"- In a checkout: python -m ortablegen check --root {suggested_root}\n"
        "- Your own spec file: ortable specs check FILE; in Python, ortable.load_specs(FILE)\n"
        "- What is supported: ortable ops"
    )


def _report_record(path: Path, specs: Specs, verb: str) -> bool:
    """Print how the installed torch differs from its record; return whether ``check`` fails."""
    record, installed = read_record(path), installed_torch()
    if installed not in record.versions:
        print(
            f"note: torch {format_version(installed)} is installed, and {path.name} records"
            f" {listed(record.versions) or 'nothing'}. The generated files do not change. To"
            " support this version, run `python -m ortablegen record-schemas`, then"
            " `make codegen`, which reports the entries that differ.",
            file=sys.stderr,
        )
        return False
    lines = [] if verb == "generate" else compare_installed(record) + compare_external(specs)
    for line in lines:
        print(f"torch {format_version(installed)}: {line}")
    if lines:
        print(f"{path.name} is stale: run `python -m ortablegen record-schemas`")
    return bool(lines)


def _report_stale(report: WriteReport, files: dict[str, str], folder: Path) -> int:
    for name in report.written:
        old_text = (folder / name).read_text(encoding="utf-8") if (folder / name).exists() else ""
        diff = difflib.unified_diff(
            old_text.splitlines(),
            files[name].splitlines(),
            f"generated/{name}",
            "fresh",
            lineterm="",
        )
        print(f"stale: generated/{name}")
        print("\n".join(list(diff)[:40]))
    for name in report.deleted:
        print(f"orphan: generated/{name} (no spec generates it)")
    if report.written or report.deleted:
        print("run `make codegen` and commit the result")
        return 1
    print(f"generated/ is fresh ({report.unchanged} files)")
    return 0
