"""Write a scene as a graph of Model Explorer, and overlays as node data.

Modules become namespaces, weights become nodes, and metadata becomes attributes.
`graph_builder.py` and `node_data_builder.py` of the package `ai-edge-model-explorer` define the
formats.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ortable.errors import InputError, OptionError
from ortable.ir.node import REWRITES_KEY

from .dot import operator_color
from .scene import Box, Constant, Edge, Group, Scene

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8590c"}]
_SEPARATORS = str.maketrans("/;", "__")  # characters with a meaning in namespaces


class ProfileResult(Protocol):
    """Interface of the result of `ortable.profile`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the tables of the profile."""


Overlay = ProfileResult | str | os.PathLike[str]


def explorer_files(
    scene: Scene, overlays: Iterable[Overlay] = (), *, weights: bool = True, attributes: bool = True
) -> dict[str, bytes]:
    """Format a scene and its overlays as contents of files by suffix, ``""`` for the graph.

    Raises InputError if the file of an overlay is not a profile, and OptionError if an overlay is
    unknown or a profile of another model.
    """
    writer = _Writer(scene, weights, attributes)
    files = {"": writer.graph_collection()}
    for overlay in overlays:
        name, data = writer.overlay_data(overlay)
        files[f".{name}.json"] = {writer.name: data}
    return {suffix: json.dumps(data, indent=1).encode() for suffix, data in files.items()}


class _Names:
    """Makes unique names."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, int] = defaultdict(int)

    def make_unique(self, name: str) -> str:
        """Return the name, with a number if it is taken."""
        self.taken[name] += 1
        return name if self.taken[name] == 1 else self.make_unique(f"{name} ({self.taken[name]})")


class _Writer:
    """Formats one scene, and assigns ids to its boxes and large constants."""

    def __init__(self, scene: Scene, weights: bool, attributes: bool) -> None:
        self.name = scene.root.name
        self.weights, self.attributes = weights, attributes
        self.namespaces: dict[Box, str] = {}
        self.groups: dict[str, dict[str, str]] = {}
        self._enter_group(scene.root, "", _Names())
        names = _Names()
        self.ids = {box: names.make_unique(box.name or box.title) for box in self.namespaces}
        rows = (row for box in self.ids for row in box.weights if weights)
        constants = dict.fromkeys(row.constant for row in rows)
        self.constant_ids: dict[Constant, str] = {
            constant: names.make_unique(constant.name)
            for constant in constants
            if constant and not constant.value
        }
        self.incoming_edges: defaultdict[Box, list[Edge]] = defaultdict(list)
        for edge in scene.edges:
            self.incoming_edges[edge.target].append(edge)

    def _enter_group(self, group: Group, namespace: str, names: _Names) -> None:
        for item in group.items:
            if isinstance(item, Box):
                self.namespaces[item] = namespace
                continue
            title = item.title().translate(_SEPARATORS)
            inner_namespace = names.make_unique(f"{namespace}/{title}" if namespace else title)
            about = {"class": item.kind, "module": item.path}
            self.groups[inner_namespace] = {key: text for key, text in about.items() if text}
            self._enter_group(item, inner_namespace, names)

    def graph_collection(self) -> dict[str, Any]:
        """Return a graph collection that contains the graph."""
        nodes = [*map(self._node_entry, self.ids), *self._constant_entries()]
        graph = {"id": self.name, "nodes": nodes, "groupNodeAttributes": self.groups}
        return {"label": self.name, "graphs": [graph]}

    def _node_entry(self, box: Box) -> dict[str, Any]:
        rows = [(row.name, row.text) for row in box.attributes if self.attributes]
        edges = [
            _edge_entry(self.ids[edge.source], edge.index, edge.output)
            for edge in self.incoming_edges[box]
        ]
        for row in box.weights:
            if row.constant in self.constant_ids:
                edges.append(_edge_entry(self.constant_ids[row.constant], row.index))
            elif self.weights:
                rows.append((row.name, row.text))
        if box.role != "node":
            rows.append(("type", box.role))
        is_custom = box.role == "node" and box.note not in ("", "ai.onnx")
        node = {
            "id": self.ids[box],
            "label": f"{box.note}.{box.title}" if is_custom else box.title,
            "namespace": self.namespaces[box],
            "attrs": _key_values([*rows, *box.about.items()]),
            "incomingEdges": edges,
            "inputsMetadata": [
                {"id": str(edge.index), "attrs": _key_values([("__tensor_tag", edge.name)])}
                for edge in self.incoming_edges[box]
            ],
        }
        results = zip(box.results, box.outputs, strict=True)
        node["outputsMetadata"] = [
            _result_entry(number, *result) for number, result in enumerate(results)
        ]
        return node

    def _constant_entries(self) -> Iterator[dict[str, Any]]:
        """Yield entries of large constants, in the namespaces of the first nodes that read them."""
        remaining = dict(self.constant_ids)
        for box, namespace in self.namespaces.items():
            for row in box.weights:
                name = None if row.constant is None else remaining.pop(row.constant, None)
                if name is not None and row.constant is not None:
                    yield {
                        "id": name,
                        "label": row.name,
                        "namespace": namespace,
                        "attrs": _key_values([("type", "weight"), ("name", row.constant.name)]),
                        "incomingEdges": [],
                        "outputsMetadata": [_result_entry(0, row.constant.name, row.constant.type)],
                    }

    def overlay_data(self, overlay: Overlay) -> tuple[str, dict[str, Any]]:
        """Return the name of an overlay (``dtype``, ``rewrite`` or ``time``) and its node data."""
        if overlay == "dtype":
            texts = {box: box.outputs[0].partition("[")[0] for box in self.ids if box.outputs}
        elif overlay == "rewrite":
            texts = {box: box.about.get(REWRITES_KEY, "") for box in self.ids}
        else:
            times = self._times_by_id(_read_kernels(overlay))
            time_entries = {
                name: {"value": round(microseconds, 3)} for name, microseconds in times.items()
            }
            return "time", {"results": time_entries, "gradient": _GRADIENT}
        results = {
            self.ids[box]: {"value": text, "bgColor": operator_color(text)}
            for box, text in texts.items()
            if text
        }
        return str(overlay), {"results": results}

    def _times_by_id(self, kernels: Iterable[tuple[list[str], float]]) -> dict[str, float]:
        """Return microseconds by id; the time of a kernel is divided equally among its nodes."""
        ids = {result: self.ids[box] for box in self.ids for result in box.results if result}
        times: defaultdict[str, float] = defaultdict(float)
        for results, microseconds in kernels:
            nodes = [ids[result] for result in results if result in ids]
            for name in nodes:
                times[name] += microseconds / len(nodes)
        if not times:
            raise OptionError("the profile is of another model: it has no node of the graph")
        return dict(times)


def _edge_entry(source: str, input_index: int, output_index: int = 0) -> dict[str, str]:
    ends = {"sourceNodeOutputId": str(output_index), "targetNodeInputId": str(input_index)}
    return {"sourceNodeId": source, **ends}


def _result_entry(number: int, name: str, type: str) -> dict[str, Any]:
    return {
        "id": str(number),
        "attrs": _key_values([("__tensor_tag", name), ("tensor_shape", type)]),
    }


def _key_values(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Format pairs without empty values; only the last pair of a key is included."""
    return [{"key": key, "value": text} for key, text in dict(pairs).items() if text]


def _read_kernels(overlay: Overlay) -> list[tuple[list[str], float]]:
    """Return, for each kernel of a profile, the results of its nodes and its microseconds."""
    if not isinstance(overlay, str | os.PathLike):
        return [(node["results"], node["us"]) for node in overlay.as_dict()["nodes"]]
    path = Path(overlay)
    if path.suffix != ".json":
        raise OptionError(
            f"an overlay must be 'dtype', 'rewrite', a profile, or its .json file, not {overlay!r}"
        )
    try:
        nodes = json.loads(path.read_text(encoding="utf-8"))["nodes"]
        return [([*node["results"]], float(node["us"])) for node in nodes]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' is not a profile of ortable: {error}") from error
