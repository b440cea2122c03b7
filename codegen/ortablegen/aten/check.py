"""Check entries: order and reachability of cases, unread arguments, results, rules, samples."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from ortable import dtypes
from ortablegen.language import kinds, vocabulary
from ortablegen.language.check import CodeChecker
from ortablegen.language.kinds import Kind, kind_of_torch_type
from ortablegen.language.narrowing import COMPLEX, FLOATS, Env, Value, narrow_env
from ortablegen.language.parse import Code
from ortablegen.language.precision import Limits, NumberTable
from ortablegen.language.reach import Solver
from ortablegen.language.samples import SampleProblem
from ortablegen.language.served import Kernels
from ortablegen.language.vocabulary import HelperFunction
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.schemas.ranges import ALWAYS, VersionRange, format_version, listed, meet
from ortablegen.schemas.registry import Registry
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.diagnostics import Diagnostics, Span

from . import draws
from .model import (
    AliasEntry,
    ComplexForm,
    DataCheck,
    LowerCase,
    OpEntry,
    PythonLowering,
    Sample,
    Specs,
    Targets,
    complex_cases,
    complex_lets,
)
from .numbers import check_numbers
from .rule_functions import check_rules
from .samples import parse_sample
from .types import check_types, inner_dtypes


def check_specs(
    specs: Specs,
    diagnostics: Diagnostics,
    *,
    user_lowerings: frozenset[str] | None = None,
    existing: Mapping[str, OpEntry] | None = None,
    numbers: NumberTable | None = None,
    kernels: Kernels | None = None,
) -> None:
    """Report all errors of ``specs``.

    Args:
        specs: the entries to check.
        diagnostics: collects the errors.
        user_lowerings: names that ``python:`` may use in a user's file; None means the functions
            in `ortable.lowerings`.
        existing: operators that aliases may target in addition to those of ``specs``.
        numbers: the measured accuracy of kernels, against which calls are checked; None skips this
            check.
        kernels: the kernel table against which ``types`` is checked, in addition to ONNX's schemas.
    """
    if user_lowerings is None:
        _check_vocabulary(specs.registry, diagnostics)
    declared = _collect_declared(specs)
    _check_duplicates(declared, diagnostics)
    _check_versions(specs, declared, diagnostics)
    _check_sorted(declared, diagnostics)
    file_keys = {entry.key for entry in specs.ops}
    other_entries = [entry for key, entry in (existing or {}).items() if key not in file_keys]
    targets = Targets([*other_entries, *specs.ops])
    kernels, helpers = kernels or Kernels(), targets.helpers()
    for entry in specs.ops:
        _OpChecker(entry, diagnostics, user_lowerings, kernels, numbers, helpers).check()
    for alias in specs.aliases:
        _check_alias(alias, targets, diagnostics)
    check_numbers(specs.numbers, diagnostics)
    for hop in specs.hops:
        if hop.python is not None:
            check_python(hop.python, diagnostics, user_lowerings)


def check_op(entry: OpEntry, diagnostics: Diagnostics, targets: Targets) -> None:
    """Report all errors of one op entry of the repository."""
    _OpChecker(entry, diagnostics, None, Kernels(), None, targets.helpers()).check()


def _check_vocabulary(registry: Registry, diagnostics: Diagnostics) -> None:
    """Report helper functions with equal names, or with the name of an argument in torch."""
    for first_listing, second_listing in vocabulary.find_duplicate_listings():
        diagnostics.error(
            Span(second_listing.file, second_listing.line, 1),
            f"the function '{second_listing.name}' has two meanings",
            [f"first given at {first_listing.file}:{first_listing.line}"],
            fix="rename one of them, or move the code that both share",
        )
    helpers = vocabulary.load_prelude()
    for name in sorted(registry.argument_names & set(helpers)):
        module = helpers[name].module.replace(".", "/")
        diagnostics.error(
            Span(f"runtime/{module}.py", 1, 1),
            f"the prelude function '{name}' is also an argument name of torch, so entries would be"
            " ambiguous",
            fix="rename the function",
        )


# sort group, key, position and versions of an entry
_DeclaredEntry = tuple[str, str, Span, VersionRange]


def _collect_declared(specs: Specs) -> list[_DeclaredEntry]:
    """Return every entry except numbers, which `check_numbers` checks, in file order."""
    placed = {p.name for p in specs.placed}
    traits_only = [t for t in specs.traits if t.traits_only and t.name not in placed]
    entries = [("operator", e.key, e.span, e.versions.present) for e in specs.operator_entries()]
    entries += [(c.kind, f"{c.kind} {c.name}", c.span, ALWAYS) for c in specs.calls]
    entries += [("hop", f"hop {h.name}", h.span, ALWAYS) for h in specs.hops]
    entries += [
        (_sort_group(p.name, "hop"), p.name, p.span, p.present)
        for p in specs.placed
        if not p.lowered
    ]
    entries += [(_sort_group(t.name, t.kind), t.key, t.span, ALWAYS) for t in traits_only]
    return sorted(entries, key=lambda entry: entry[2])


def _sort_group(name: str, kind: str) -> str:
    return "operator" if "::" in name else kind


def _check_duplicates(declared: list[_DeclaredEntry], diagnostics: Diagnostics) -> None:
    earlier_entries: dict[str, list[tuple[Span, VersionRange]]] = {}
    for _, key, span, present in declared:
        for first_span, other_present in earlier_entries.setdefault(key, []):
            common_version = meet([present, other_present])
            if common_version is None:
                continue
            notes = [f"first given at {first_span.origin}"]
            if present == other_present:
                message = f"duplicate entry for '{key}'"
            else:
                message = f"the 'torch' ranges of two entries for '{key}' overlap"
                notes.append(f"torch {format_version(common_version)} is in both")
            diagnostics.error(span, message, notes)
            break
        earlier_entries[key].append((span, present))


def _check_versions(specs: Specs, declared: list[_DeclaredEntry], diagnostics: Diagnostics) -> None:
    """Check that an operator's entries cover each recorded torch that has it, and share traits."""
    registry = specs.registry
    ranges: dict[str, list[tuple[Span, VersionRange]]] = {}
    for _, key, span, present in declared:
        ranges.setdefault(key, []).append((span, present))
    for key, entries in ranges.items() if registry.is_record else ():
        missing = [
            version
            for version in registry.versions
            if registry.text(key, version) is not None
            and not any(present.contains(version) for _, present in entries)
        ]
        if missing:
            texts = sorted({registry.text(key, version) or "" for version in missing})
            notes = [f"its schema there: {text}" for text in texts]
            diagnostics.error(
                entries[-1][0],
                f"torch {listed(missing)} has '{key}', but no entry is for this version",
                notes,
                fix="widen the range, or add an entry with a separate range",
            )
    uses: dict[str, tuple[tuple[str, tuple[object, ...]], ...]] = {}
    for traits in specs.traits:
        trait_uses = tuple(sorted((use.name, use.values) for use in traits.uses))
        if not traits.traits_only and uses.setdefault(traits.key, trait_uses) != trait_uses:
            diagnostics.error(traits.span, f"the traits of two entries of '{traits.key}' differ")


def _check_sorted(declared: list[_DeclaredEntry], diagnostics: Diagnostics) -> None:
    groups: dict[tuple[str, str], list[tuple[str, Span]]] = {}
    for group, key, span, _ in declared:
        # an entry with rows is sorted by its first row; `rows` checks the order of its rows
        if group != "hop" and (span.row is None or not span.row.number):
            groups.setdefault((span.file, group), []).append((key, span))
    for named in groups.values():
        diagnostics.check_sorted(named)


def check_python(
    python: PythonLowering, diagnostics: Diagnostics, user_lowerings: frozenset[str] | None
) -> None:
    """Check that a Python lowering exists and gives its reason."""
    if not (python.why or "").strip():
        diagnostics.error(
            python.span,
            "a Python lowering needs 'why:'",
            fix="give the reason: what the language cannot express",
        )
    if user_lowerings is not None:
        if python.path not in user_lowerings:
            allowed = ", ".join(sorted(user_lowerings)) or "none"
            diagnostics.error(
                python.span,
                f"there is no lowering '{python.path}'",
                [f"lowerings are: {allowed}"],
                fix="pass it: load_specs(path, lowerings={'name': function})",
            )
    elif vocabulary.lowering_parameters(python.path) is None:
        diagnostics.error(
            python.span,
            f"there is no function '{python.path}'",
            fix="write it in ortable/lowerings/",
        )


def argument_env(schema: OpSchema) -> Env:
    """Return the kinds of a schema's arguments."""
    return {
        argument.name: Value(kind_of_torch_type(argument.type)) for argument in schema.arguments
    }


# promotions after which the arguments have the dtype of the result
_RESULT_DTYPE_PROMOTIONS = ("default", "no_bool", "bool_to_long", "int_to_float", "pow")


def result_dtypes(entry: OpEntry) -> frozenset[int] | None:
    """Return the dtypes that `out` allows for the only result; None if unknown."""
    if len(entry.out) != 1:
        return None
    rule = entry.out[0].dtype.expression
    if isinstance(rule, ast.Name) and rule.id in vocabulary.DTYPES:
        return frozenset({getattr(dtypes, rule.id)})
    if isinstance(rule, ast.Call):
        name = ast.unparse(rule.func)
        to_float = any(ast.unparse(keyword.value) == "int_to_float" for keyword in rule.keywords)
        promoted = entry.promote is not None and entry.promote.kind == "int_to_float"
        if name == "promote_to_float" or (name == "promote" and (to_float or promoted)):
            return FLOATS | COMPLEX
    return None


_OPSET, _TARGET = "graph.opset", "graph.target"


def _full_condition(case: LowerCase) -> ast.expr | None:
    """Combine ``target``, ``opset`` and ``when`` into one condition; None without any."""
    parts: list[ast.expr] = []
    if case.target is not None:
        parts.append(ast.Compare(ast.Name(_TARGET), [ast.Eq()], [ast.Constant(case.target)]))
    if case.opset is not None:
        sign = ast.GtE() if case.opset[0] == ">=" else ast.Lt()
        parts.append(ast.Compare(ast.Name(_OPSET), [sign], [ast.Constant(case.opset[1])]))
    if case.when is not None:
        parts.append(case.when.expression)
    return ast.BoolOp(ast.And(), parts) if len(parts) > 1 else parts[0] if parts else None


class _OpChecker:
    """Checks one op entry."""

    def __init__(
        self,
        entry: OpEntry,
        diagnostics: Diagnostics,
        user_lowerings: frozenset[str] | None,
        kernels: Kernels,
        numbers: NumberTable | None,
        helpers: Mapping[str, HelperFunction],
    ) -> None:
        self.kernels = kernels
        self.helpers = helpers
        self.entry = entry
        self.diagnostics = diagnostics
        self.error = diagnostics.error
        self.user_lowerings = user_lowerings
        self.read: set[str] = set()
        self.limits = Limits(numbers, dict(entry.precision)) if numbers is not None else None

    def check(self) -> None:
        entry = self.entry
        error_calls_before = self.diagnostics.error_calls
        if entry.schema.is_mutable and not entry.schema.written:
            self.error(
                entry.span,
                f"'{entry.key}' writes into its arguments",
                [
                    "a mutating graph is functionalised before conversion, so this entry would"
                    " never be reached"
                ],
                fix="write the entry of the functional overload",
            )
        env = argument_env(entry.schema)
        env["res"] = Value(Kind(kinds.RES), result_dtypes(entry))
        linked = self.check_promote(env)
        for name, members in inner_dtypes(entry).items():
            if env[name].kind.base == kinds.RESULT:
                env[name] = replace(env[name], dtypes=members)
        if entry.draw is not None:
            self.read |= draws.check_draw(entry, self.diagnostics)
            env[draws.DRAWN] = Value(Kind(kinds.RESULT, True))
        for name, code in entry.let:
            env[name] = self.check_expression(code, env, condition=True)
        self.check_unused_arguments(env)
        if entry.lower:
            self.check_cases(entry.lower, env, linked)
        if self.diagnostics.error_calls == error_calls_before:
            # after another error some arguments may not have been read
            self.check_arguments_read()
        for data_check in entry.checks:
            self.check_data_check(data_check, env)
        if entry.complex is not None:
            self.check_complex(entry.complex)
        if self.diagnostics.error_calls == error_calls_before and self.limits is not None:
            for name, declared in self.limits.list_unused():
                self.error(declared.span, f"precision: no call needs '{name}'", fix="remove it")
        check_rules(entry, self.diagnostics)
        if self.diagnostics.error_calls == error_calls_before:
            check_types(entry, self.kernels, self.diagnostics)
        for sample in (*entry.samples, *(data_check.repro for data_check in entry.checks)):
            _check_sample(sample, entry.schema, self.diagnostics)

    def check_data_check(self, row: DataCheck, env: Env) -> None:
        """Check a row of ``checks``; its conditions and bounds must be known at conversion."""
        if row.when is not None:
            self.check_expression(row.when, env, condition=True)
            env = self.recompute_lets(narrow_env(env, row.when.expression, True, ()))
        for code in (row.low, row.high, row.axis):
            if code is not None:
                self.check_expression(code, env, condition=True)
        kind = self.check_expression(row.values, env, condition=False).kind
        if kind.base not in (kinds.RESULT, kinds.RESULTS, kinds.ANY):
            self.error(row.values.span, f"checks need a result of the graph, not {kind}")

    def check_promote(self, env: Env) -> tuple[str, ...]:
        """Check ``promote``; return the arguments that then have the dtype of the result."""
        promote = self.entry.promote
        if promote is None:
            return self.find_argument_like_result(env)
        for name in promote.args:
            if name not in env or env[name].kind.base not in (kinds.RESULT, kinds.SCALAR):
                self.error(
                    promote.span,
                    f"promote names '{name}', which is not a tensor argument of the operator",
                )
            else:
                floats = FLOATS if promote.kind == "int_to_float" else None
                env[name] = Value(Kind(kinds.RESULT, env[name].kind.optional), floats)
            self.read.add(name)
        return promote.args if promote.kind in _RESULT_DTYPE_PROMOTIONS else ()

    def find_argument_like_result(self, env: Env) -> tuple[str, ...]:
        """Return the argument whose dtype is, according to `out`, that of the only result."""
        if len(self.entry.out) != 1:
            return ()
        rule = self.entry.out[0].dtype.expression
        if isinstance(rule, ast.Call) and ast.unparse(rule.func) == "same" and rule.args:
            name = ast.unparse(rule.args[0])
            if name in env and env[name].kind.base == kinds.RESULT:
                return (name,)
        return ()

    def check_expression(
        self, code: Code, env: Env, *, condition: bool, case: LowerCase | None = None
    ) -> Value:
        """Check an expression and record the arguments that it reads."""
        checker = self.make_checker(code, env, condition, case, ())
        value = checker.infer_value(code.expression)
        self.read |= checker.read
        if (
            value.kind == Kind(kinds.RESULT)
            and case is not None
            and isinstance(code.expression, ast.Name)
        ):
            self.error(
                code.span,
                "a result of the graph in a condition",
                fix="test its dtype, rank or whether it is None",
            )
        return value

    def make_checker(
        self, code: Code, env: Env, condition: bool, case: LowerCase | None, linked: tuple[str, ...]
    ) -> CodeChecker:
        opsets, target = (case.opset_range, case.target) if case else (DOMAIN_RANGE[""], None)
        return CodeChecker(
            code, dict(env), self.diagnostics, opsets, target, condition, linked,
            helpers=self.helpers, limits=self.limits,
        )  # fmt: skip

    def check_unused_arguments(self, env: Env) -> None:
        """Report names in ``unused`` that are not arguments."""
        for name, _, span in self.entry.unused:
            if name not in self.entry.schema.names:
                self.error(span, f"unused names '{name}', which is not an argument of the operator")

    def check_complex(self, form: ComplexForm) -> None:
        """Check ``complex:``, where a tensor is a pair of parts and each argument must be read."""
        arguments = self.entry.schema.arguments
        if form.by_parts or form.by_products:
            self.check_parts(form)
            return
        env: Env = {
            a.name: Value(kinds.complex_kind(kind_of_torch_type(a.type))) for a in arguments
        }
        env["res"] = Value(Kind(kinds.RES))
        self.read = set()
        for name in self.entry.promote.args if self.entry.promote is not None else ():
            if name in env:
                env[name] = Value(Kind(kinds.COMPLEX, env[name].kind.optional))
                self.read.add(name)
        error_calls_before = self.diagnostics.error_calls
        if form.as_lower and not self.entry.lower:
            self.error(form.span, "complex: lower needs 'lower', which this entry lacks")
        cases = complex_cases(self.entry)
        for name, code in complex_lets(self.entry):
            env[name] = self.check_expression(code, env, condition=True)
        self.check_cases(cases, env, ())
        if self.diagnostics.error_calls == error_calls_before and any(
            c.refuse is None for c in cases
        ):
            unused = {name for name, _, _ in self.entry.unused}
            for argument in arguments:
                if argument.name not in self.read | unused:
                    self.error(
                        form.span,
                        f"argument '{argument.name}' of {self.entry.key} is never read for complex"
                        " tensors",
                        fix="use it, add a case that refuses it, or give a reason in 'unused'",
                    )

    def check_parts(self, form: ComplexForm) -> None:
        """Check that ``parts(...)`` or ``products(...)`` names tensor or number arguments."""
        form_name = "products" if form.by_products else "parts"
        allowed = frozenset({kinds.RESULT}) if form.by_products else kinds.WITH_PARTS
        by_name = {a.name: kind_of_torch_type(a.type).base for a in self.entry.schema.arguments}
        if not self.entry.lower:
            self.error(
                form.span,
                f"{form_name}(...) uses the real lowering, which this entry lacks",
                fix="add 'lower', or write the complex block",
            )
        for name in form.parts:
            if by_name.get(name) not in allowed:
                self.error(
                    form.span,
                    f"{form_name} names '{name}', which is not a tensor or number argument",
                    [f"schema: {self.entry.schema.text}"],
                )

    def check_cases(self, cases: tuple[LowerCase, ...], env: Env, linked: tuple[str, ...]) -> None:
        """Check the cases in order, and narrow the environment after each."""
        argument_kinds = {name: value.kind for name, value in env.items()}
        if cases and not cases[-1].is_catch_all:
            self.error(
                cases[-1].span,
                "the last case has a condition, so a call may match no case",
                fix="drop its when/target/opset, or add '- refuse: <reason>' as the last case",
            )
        for case in cases:
            env = self.check_case(case, env, linked)
        if len(cases) > 1:
            self.check_reach(cases, argument_kinds, linked)

    def check_reach(
        self,
        cases: tuple[LowerCase, ...],
        argument_kinds: Mapping[str, Kind],
        linked: tuple[str, ...],
    ) -> None:
        """Report conditions that never or always hold, and cases that no call can reach."""
        kinds_by_name = {**argument_kinds, _OPSET: Kind(kinds.INT)}
        solver = Solver(kinds_by_name, linked, {_OPSET: DOMAIN_RANGE[""]})
        for finding in solver.find_problems([_full_condition(case) for case in cases]):
            case = cases[finding.index]
            span = case.when.span if case.when is not None else case.span
            if finding.kind == "never":
                self.error(span, "this condition never holds", fix="correct it, or drop the case")
            elif finding.kind == "always":
                self.error(
                    span,
                    "this condition always holds",
                    fix="drop it, and the cases after this one",
                )
                return
            elif finding.by is not None:
                line = cases[finding.by].span.line
                notes = [f"the case at line {line} takes every call that meets its condition"]
                self.error(case.span, "this case can't be reached", notes)
            else:
                notes = ["the earlier cases take every call that meets its condition"]
                if case.is_catch_all:
                    notes = ["the earlier cases take every call"]
                self.error(case.span, "this case can't be reached", notes)

    def check_case(self, case: LowerCase, env: Env, linked: tuple[str, ...]) -> Env:
        """Check a case; return the environment of the cases after it."""
        inside = env
        if case.when is not None:
            self.check_expression(case.when, env, condition=True, case=case)
            inside = self.recompute_lets(narrow_env(env, case.when.expression, True, linked))
        if case.do is not None:
            checker = self.make_checker(case.do, inside, False, case, linked)
            checker.check_block(self.entry.schema.returns)
            self.read |= checker.read
        if case.python is not None:
            check_python(case.python, self.diagnostics, self.user_lowerings)
            self.read |= self.arguments_read_by_python(case.python)
        if case.refuse is not None and not case.refuse.strip():
            self.error(case.span, "a refusal needs its reason")
        if case.when is not None and case.target is None and case.opset is None:
            return self.recompute_lets(narrow_env(env, case.when.expression, False, linked))
        return env

    def recompute_lets(self, env: Env) -> Env:
        """Recompute the dtypes of `let` after a condition has narrowed their arguments."""
        for name, code in self.entry.let:
            checker = self.make_checker(code, env, True, None, ())
            checker.diagnostics = Diagnostics()  # errors were reported before
            value = checker.infer_value(code.expression)
            if value.kind.base == kinds.DTYPE and name in env:
                env[name] = value
        return env

    def arguments_read_by_python(self, python: PythonLowering) -> frozenset[str]:
        """Return the arguments that a Python lowering reads."""
        if self.user_lowerings is not None:
            return self.entry.schema.names
        # a missing lowering is reported once, so its arguments count as read
        read = vocabulary.lowering_parameters(python.path)
        return frozenset(self.entry.schema.names if read is None else read)

    def check_arguments_read(self) -> None:
        unused = {name for name, _, _ in self.entry.unused}
        if all(case.refuse is not None for case in self.entry.lower):
            return  # also if the entry has no case of `lower`
        for argument in self.entry.schema.arguments:
            if argument.name not in self.read and argument.name not in unused:
                self.error(
                    self.entry.span,
                    f"argument '{argument.name}' of {self.entry.key} is never read",
                    [f"schema: {self.entry.schema.text}"],
                    fix=f"use it, or give a reason: unused: {{{argument.name}: <reason>}}",
                )
            if argument.name in self.read and argument.name in unused:
                self.error(
                    self.entry.span,
                    f"argument '{argument.name}' is read, but listed under 'unused'",
                )


def _check_alias(alias: AliasEntry, targets: Targets, diagnostics: Diagnostics) -> None:
    target = targets.find_target(alias)
    if target is None and (ranges := targets.versions_of(alias.of)):
        diagnostics.error(
            alias.of_span,
            f"no entry of '{alias.of}' covers all versions of torch of the alias",
            [f"entries are for {' and for '.join(ranges)}"],
            fix="write an alias for each of these ranges: torch: ...",
        )
        return
    if target is None:
        diagnostics.error(
            alias.of_span,
            f"there is no op entry '{alias.of}'",
            fix="alias an operator with an op entry",
        )
        return
    written = alias.schema.written  # empty for torch's operators, see OpSchema
    if alias.schema.is_mutable and (not written or len(written) != len(target.schema.written)):
        diagnostics.error(
            alias.span,
            f"'{alias.key}' writes into its arguments",
            fix="alias the functional overload",
        )
    env = argument_env(alias.schema)
    names_read: set[str] = set()
    mapped = dict(alias.args)
    for name, code in alias.args:
        if name not in target.schema.names:
            diagnostics.error(
                code.span, f"{alias.of} has no argument '{name}'", [f"schema: {target.schema.text}"]
            )
        checker = CodeChecker(code, dict(env), diagnostics, DOMAIN_RANGE[""], None, True)
        checker.infer_value(code.expression)
        names_read |= checker.read
    for argument in target.schema.arguments:
        if argument.name in env and argument.name not in mapped:
            names_read.add(argument.name)
        elif argument.name not in mapped and not argument.has_default:
            diagnostics.error(
                alias.span,
                f"the alias gives no value for argument '{argument.name}' of {alias.of}",
                fix=f"args: {{{argument.name}: <an expression of the alias's arguments>}}",
            )
    unused = {name for name, _, _ in alias.unused}
    for argument in alias.schema.arguments:
        if argument.name not in names_read and argument.name not in unused:
            diagnostics.error(
                alias.span,
                f"argument '{argument.name}' of {alias.key} is never read",
                fix=f"map it in args, or give a reason: unused: {{{argument.name}: <reason>}}",
            )
    for sample in alias.samples:
        _check_sample(sample, alias.schema, diagnostics)


def _check_sample(sample: Sample, schema: OpSchema, diagnostics: Diagnostics) -> None:
    try:
        parse_sample(sample, schema)
    except SampleProblem as problem:
        diagnostics.error(
            sample.span,
            str(problem),
            fix='tensors are written "f32[2,3]", other values as Python literals',
        )
