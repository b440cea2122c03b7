"""The command `ortable rewrites` (list rules, show one, check a file) and the option --rewrites."""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortable.errors import OptionError, SpecError

if TYPE_CHECKING:
    from ortable.passes.rewrite.rule import Rule

VERBOSE_HELP = "write a report of each error to a file"


def add_rewrites_option(command: Any) -> None:
    """Add ``--rewrites`` to a command that converts a model."""
    command.add_argument(
        "--rewrites",
        metavar="NAMES",
        default="default",
        help="rules to apply, separated by commas: default,-cast_same,my_rules.yaml; also none, "
        "all; `ortable rewrites` lists them",
    )


def parse_rewrites_option(args: argparse.Namespace) -> list[str]:
    """Split the value of ``--rewrites``: ``"default,-cast_same"`` -> ``["default", "-cast_same"]``.

    The list is a value of the argument ``rewrites`` of to_onnx, and of the backend option.
    """
    return [name.strip() for name in args.rewrites.split(",") if name.strip()]


def add_rewrites(commands: Any) -> None:
    """Add `rewrites` and its actions to the subparsers of argparse."""
    rewrites = commands.add_parser(
        "rewrites", help="list the rules that rewrite graphs, show one, check a file of yours"
    )
    rewrites.set_defaults(run=_run_list, names=[], grep="")
    actions = rewrites.add_subparsers(dest="action", metavar="action")
    list_action = actions.add_parser(
        "list", help="the rules, by stage; all of the package by default"
    )
    list_action.add_argument(
        "names", nargs="*", metavar="NAME", help="as in rewrites=[...]: default, a rule, my.yaml"
    )
    list_action.add_argument(
        "--grep",
        default="",
        metavar="TEXT",
        help="only rules whose name, file or purpose contains this",
    )
    list_action.set_defaults(run=_run_list)
    show = actions.add_parser("show", help="what a rule matches, when, and what it makes")
    show.add_argument("name", metavar="NAME", help="name of the rule")
    show.add_argument("file", nargs="?", metavar="FILE.yaml", help="your file with the rule")
    show.set_defaults(run=_run_show)
    check = actions.add_parser("check", help="check a file of rules as codegen does")
    check.add_argument("file", metavar="FILE.yaml", help="a file of rewrites of yours")
    check.set_defaults(run=_run_check)


def select_named_rules(args: argparse.Namespace) -> list[str]:
    """Return the names of the rules that ``--rewrites`` adds by the name of a rule or file."""
    from ortable.passes.rewrite.rule_selection import SETS, select_rules

    names = [name for name in parse_rewrites_option(args) if name not in SETS and name[0] != "-"]
    return [rule.name for rule in _unique_rules(select_rules(names))]


# -- list


def _run_list(args: argparse.Namespace) -> int:
    from ortable.debug.explain_records import format_count
    from ortable.passes.rewrite.rule import STAGES
    from ortable.passes.rewrite.rule_selection import select_rules

    candidates = _unique_rules(select_rules(args.names or "all"))
    matches = [
        rule
        for rule in candidates
        if args.grep.lower() in f"{rule.name} {rule.file} {rule.why}".lower()
    ]
    matches.sort(key=lambda rule: (STAGES.index(rule.stage), rule.file, rule.name))
    for (stage, file), group in itertools.groupby(matches, lambda rule: (rule.stage, rule.file)):
        print(f"{stage}, {Path(file).name}:")
        for rule in group:
            _print_rule(rule)
    off_count = sum(bool(rule.off) for rule in matches)
    print(f"{format_count(len(matches), 'rule')}, {off_count} of them off by default")
    return 0


def _print_rule(rule: Rule) -> None:
    """Print name, purpose and restrictions of a rule, and, if it is off by default, the reason."""
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    head = f"  {rule.name:28} "
    body = rule.why + (f" [{note}]" if (note := _format_restrictions(rule)) else "")
    # 31 is the length of `head` for a short name
    lines = textwrap.wrap(
        body, width, initial_indent=head, subsequent_indent=" " * 31, break_on_hyphens=False
    )
    print("\n".join(lines or [head.rstrip()]))
    if rule.off:
        print(textwrap.indent("\n".join(textwrap.wrap(f"off: {rule.off}", width - 31)), " " * 31))


def _format_restrictions(rule: Rule) -> str:
    """Format the target and opsets of a rule; empty if it runs for every target and opset."""
    notes = [f"only with target {rule.target!r}"] if rule.target else []
    low, high = rule.opsets
    if low > 18:  # the lowest opset that ortable writes
        notes.append(f"opset >= {low}")
    if high < 1000:  # the default of Rule.opsets, which stands for no limit
        notes.append(f"opset <= {high}")
    return ", ".join(notes)


def _unique_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Keep the first rule of each rewrite, whose other rules match alternative patterns."""
    unique: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        unique.setdefault((rule.file, rule.name), rule)
    return list(unique.values())


# -- show


def _run_show(args: argparse.Namespace) -> int:
    from ortable.passes.rewrite.rule_selection import SETS, select_rules

    candidates = select_rules("all") if args.file is None else select_rules([args.file])
    alternatives = [rule for rule in candidates if rule.name == args.name]
    if not alternatives:
        if args.file is not None:
            raise OptionError(f"{args.file} has no rule {args.name!r}")
        select_rules([args.name])  # raises for an unknown name
        kind = "a set" if args.name in SETS else "a file"
        names = ", ".join(rule.name for rule in _unique_rules(select_rules([args.name])))
        raise OptionError(f"{args.name!r} is {kind} of rules; it has {names or 'none'}")
    rule = alternatives[0]
    state = f"off by default: {rule.off}" if rule.off else "on by default"
    if args.file is not None:
        state = "runs when its file is named"
    note = _format_restrictions(rule)
    print(f"# {rule.name}: stage {rule.stage}, {state}{', ' + note if note else ''}")
    entry = _read_entry(rule, args.file)
    if entry is not None:
        print(entry)
        return 0
    print(f"# {rule.why}")
    print(
        f"# {rule.file} is not installed, or lists the rule in another form; its generated code:\n"
    )
    print(_format_source(alternatives))
    return 0


def _read_entry(rule: Rule, user_file: str | None) -> str | None:
    """Read the YAML text of a rewrite; None if its spec file is not installed or lacks it."""
    import ortable_generated

    root = Path(str(ortable_generated.__file__)).resolve().parents[2]
    path = root / rule.file if user_file is None else Path(user_file)
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    start = re.search(rf"^- rewrite: *{re.escape(rule.name)} *(#.*)?$", text, re.MULTILINE)
    if start is None:
        return None
    tail = text[start.end() :]
    end = re.search(r"^(?:-|#|\Z)", tail, re.MULTILINE)
    return start.group() + (tail if end is None else tail[: end.start()]).rstrip()


def _format_source(alternatives: Sequence[Rule]) -> str:
    """Return the Python source of a rewrite: the matcher of each alternative, and the maker."""
    functions = dict.fromkeys([*(rule.match for rule in alternatives), alternatives[0].make])
    return "\n\n".join(inspect.getsource(function).rstrip() for function in functions)


# -- check


def _run_check(args: argparse.Namespace) -> int:
    return check_rules(args.file)


def check_rules(file: str) -> int:
    """Print the rules of a user's file and return 0; if it has errors, print them and return 1."""
    from ortable.debug.explain_records import format_count
    from ortable.passes.rewrite.rule_selection import load_rules

    try:
        unique = _unique_rules(load_rules(file))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{file}: {format_count(len(unique), 'rule')}, no error")
    for rule in unique:
        print(f"  {rule.name} ({rule.stage}): {rule.why}")
    return 0
