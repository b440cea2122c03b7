"""Configurations of transformers, made small by the table tiny.yaml. In comes a class of
configuration, out come the arguments of a small one. Called by models.py."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parent / "tiny.yaml"


@cache
def table() -> Mapping[str, Any]:
    """The table, its patterns compiled."""
    content = yaml.safe_load(TABLE.read_text())
    content["sizes"] = [(re.compile(pattern), most) for pattern, most in content["sizes"]]
    for part in ("models", "calls"):
        found: dict[str, Any] = {}
        for group in content[part]:
            for name in group["of"].split():
                found[name] = merged(found.get(name, {}), group["are"])
        content[part] = found
    return content


def small_config(kind: type, model_type: str = "", model: str = "") -> Any:
    """A configuration of class ``kind`` with small sizes, for the class of that name."""
    found = arguments(kind, kind, model_type)
    return kind(**merged(found, table()["models"].get(model, {})))


def arguments(kind: Any, given: Any, model_type: str = "") -> dict[str, Any]:
    """Arguments of ``kind`` that are small where its defaults are not.

    Args:
        kind: a class of configuration.
        given: the class itself, or an instance whose parts say of which class they are.
        model_type: that of the model, where several have one class.
    """
    found: dict[str, Any] = {}
    fixed = table()["set"]
    for field in dataclasses.fields(kind):
        value = _default(field)
        if field.name in fixed:
            found[field.name] = fixed[field.name]
        elif (least := smaller(field.name, value)) != value:
            found[field.name] = least
    found.update(_related(kind, found))
    over = table()["models"]
    own = {**over.get(kind.model_type, {}), **over.get(model_type, {})}
    for name in kind.sub_configs:
        part = _of_instance(kind, name)
        if part is not None and own.get(name, {}) is not None:
            found[name] = {**arguments(type(part), part), "model_type": part.model_type}
            if features := getattr(part, "_out_features", None):
                found[name].update(_maps(list(features), found[name].get("num_hidden_layers")))
    return merged(found, own)


def _related(kind: Any, small: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from other fields: as many heads of keys as of queries where the defaults say
    so, and a layer of each kind."""
    found: dict[str, Any] = {}
    names = {field.name: _default(field) for field in dataclasses.fields(kind)}
    heads = names.get("num_attention_heads")
    if "num_key_value_heads" in names and (
        names["num_key_value_heads"] == heads or names.get("kv_lora_rank")
    ):
        found["num_key_value_heads"] = small.get("num_attention_heads", heads)
    for name in ("layer_types", "mlp_layer_types"):
        kinds = list(dict.fromkeys(_of_instance(kind, name) or ()))
        if len(kinds) > 1 and name in names:
            found[name] = kinds
            found["num_hidden_layers"] = len(kinds)
    both = [name for name in ("layer_types", "mlp_layer_types") if name in found]
    for name in both:  # of one length
        count = found["num_hidden_layers"] = max(len(found[each]) for each in both)
        found[name] = (found[name] * count)[:count]
    return found


def _maps(features: list[str], layers: int | None) -> dict[str, Any]:
    """Of a backbone, the maps that are read: those of its last layers where a stage is a layer, and
    the small one has fewer."""
    stages = [int(each[5:]) for each in features if re.fullmatch(r"stage\d+", each)]
    if not layers or not stages or max(stages) <= layers:
        return {"out_features": features}
    layers = max(layers, len(stages))
    last = [f"stage{layers - len(stages) + 1 + place}" for place in range(len(stages))]
    return {"out_features": last, "num_hidden_layers": layers}


def smaller(name: str, value: Any) -> Any:
    """``value`` bounded by the first pattern that fits the name of its field."""
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        return value
    for pattern, most in table()["sizes"]:
        if pattern.fullmatch(name):
            return _bounded(value, most)
    return value


def _bounded(value: Any, most: Any) -> Any:
    if isinstance(value, int):
        return min(value, most) if isinstance(most, int) else value
    if isinstance(most, list):
        return most[: len(value)]
    return [_bounded(each, most) if isinstance(each, int) else each for each in value]


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid over ``base``, dicts in dicts."""
    found = dict(base)
    for name, value in over.items():
        old = found.get(name)
        both = isinstance(value, Mapping) and isinstance(old, dict)
        found[name] = merged(old, value) if both else value
    return found


def _default(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _instance(kind: Any) -> Any:
    return kind()


def _of_instance(kind: Any, name: str) -> Any:
    try:
        return getattr(_instance(kind), name, None)
    except Exception:  # parts that have no default: the table has to name them
        return None
