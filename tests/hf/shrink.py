"""Make configurations of transformers small, by the table tiny.yaml."""

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
    """Return the table with compiled patterns."""
    content = yaml.safe_load(TABLE.read_text())
    content["sizes"] = [(re.compile(pattern), limit) for pattern, limit in content["sizes"]]
    for part in ("models", "calls"):
        merged_groups: dict[str, Any] = {}
        for group in content[part]:
            for name in group["of"].split():
                merged_groups[name] = merged(merged_groups.get(name, {}), group["are"])
        content[part] = merged_groups
    return content


def small_config(kind: type, model_type: str = "", model: str = "") -> Any:
    """Return a configuration of class ``kind`` with small sizes, for the model class ``model``."""
    small_arguments = arguments(kind, kind, model_type)
    return kind(**merged(small_arguments, table()["models"].get(model, {})))


def arguments(kind: Any, config: Any, model_type: str = "") -> dict[str, Any]:
    """Return arguments of ``kind`` that are smaller than its defaults.

    Args:
        kind: a class of configuration.
        config: the class, or an instance whose parts determine their classes.
        model_type: the type of the model, where several types have the same class.
    """
    result: dict[str, Any] = {}
    fixed_values = table()["set"]
    for field in dataclasses.fields(kind):
        value = _default(field)
        if field.name in fixed_values:
            result[field.name] = fixed_values[field.name]
        elif (small_value := smaller(field.name, value)) != value:
            result[field.name] = small_value
    result.update(_related(kind, result))
    overrides = table()["models"]
    own_overrides = {**overrides.get(kind.model_type, {}), **overrides.get(model_type, {})}
    for name in kind.sub_configs:
        part = _instance_attribute(kind, name)
        if part is not None and own_overrides.get(name, {}) is not None:
            result[name] = {**arguments(type(part), part), "model_type": part.model_type}
            if features := getattr(part, "_out_features", None):
                result[name].update(
                    _out_features(list(features), result[name].get("num_hidden_layers"))
                )
    return merged(result, own_overrides)


def _related(kind: Any, small: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that depend on other fields: the number of key heads, and layer types."""
    related: dict[str, Any] = {}
    defaults = {field.name: _default(field) for field in dataclasses.fields(kind)}
    heads = defaults.get("num_attention_heads")
    if "num_key_value_heads" in defaults and (
        defaults["num_key_value_heads"] == heads or defaults.get("kv_lora_rank")
    ):
        related["num_key_value_heads"] = small.get("num_attention_heads", heads)
    for name in ("layer_types", "mlp_layer_types"):
        kinds = list(dict.fromkeys(_instance_attribute(kind, name) or ()))
        if len(kinds) > 1 and name in defaults:
            related[name] = kinds
            related["num_hidden_layers"] = len(kinds)
    type_lists = [name for name in ("layer_types", "mlp_layer_types") if name in related]
    for name in type_lists:  # both lists have the same length
        count = related["num_hidden_layers"] = max(len(related[other]) for other in type_lists)
        related[name] = (related[name] * count)[:count]
    return related


def _out_features(features: list[str], layers: int | None) -> dict[str, Any]:
    """Return the feature maps that are read of a backbone, those of its last layers."""
    stages = [int(name[5:]) for name in features if re.fullmatch(r"stage\d+", name)]
    if not layers or not stages or max(stages) <= layers:
        return {"out_features": features}
    layers = max(layers, len(stages))
    names = [f"stage{layers - len(stages) + 1 + index}" for index in range(len(stages))]
    return {"out_features": names, "num_hidden_layers": layers}


def smaller(name: str, value: Any) -> Any:
    """Return ``value`` limited by the first pattern that matches the name of its field."""
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        return value
    for pattern, limit in table()["sizes"]:
        if pattern.fullmatch(name):
            return _limit(value, limit)
    return value


def _limit(value: Any, limit: Any) -> Any:
    if isinstance(value, int):
        return min(value, limit) if isinstance(limit, int) else value
    if isinstance(limit, list):
        return limit[: len(value)]
    return [_limit(item, limit) if isinstance(item, int) else item for item in value]


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` updated with ``over``, dicts recursively."""
    result = dict(base)
    for name, value in over.items():
        old = result.get(name)
        are_dicts = isinstance(value, Mapping) and isinstance(old, dict)
        result[name] = merged(old, value) if are_dicts else value
    return result


def _default(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _instance(kind: Any) -> Any:
    return kind()


def _instance_attribute(kind: Any, name: str) -> Any:
    try:
        return getattr(_instance(kind), name, None)
    except Exception:  # parts without a default must be in the table
        return None
