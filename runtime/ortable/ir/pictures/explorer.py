"""Write a scene as a graph of Model Explorer, and overlays as its node data.

`draw` calls it. Modules are namespaces, weights are nodes, what the metadata says are attributes.
`graph_builder.py` and `node_data_builder.py` of `ai-edge-model-explorer` define the formats.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ortable.errors import InputError, OptionError
from ortable.ir.node import REWRITES

from .dot import color_of
from .scene import Box, Constant, Edge, Group, Scene

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8590c"}]
_SEPARATORS = str.maketrans("/;", "__")  # of namespaces


class Times(Protocol):
    """A result of `ortable.profile`."""

    def as_dict(self) -> dict[str, Any]:
        """Return its tables."""


Overlay = Times | str | os.PathLike[str]


def explorer_files(
    scene: Scene, overlays: Iterable[Overlay] = (), *, weights: bool = True, attributes: bool = True
) -> dict[str, bytes]:
    """Write a scene, and a file of node data for each overlay.

    Returns:
        Contents by the ending of the file: none for the graph, ``.time.json`` for an overlay.

    Raises:
        InputError: an overlay is a file that is no profile.
        OptionError: an overlay is unknown, or a profile of another model.
    """
    writer = _Writer(scene, weights, attributes)
    files = {"": writer.graph_collection()}
    for overlay in overlays:
        name, data = writer.overlay_data(overlay)
        files[f".{name}.json"] = {writer.name: data}
    return {ending: json.dumps(data, indent=1).encode() for ending, data in files.items()}


class _Names:
    """Unique names."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, int] = defaultdict(int)

    def make_unique(self, name: str) -> str:
        """Return the name, with a number where it is taken."""
        self.taken[name] += 1
        return name if self.taken[name] == 1 else self.make_unique(f"{name} ({self.taken[name]})")


class _Writer:
    """The nodes of one scene, with their ids."""

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
        self.reads: defaultdict[Box, list[Edge]] = defaultdict(list)
        for edge in scene.edges:
            self.reads[edge.target].append(edge)

    def _enter_group(self, group: Group, namespace: str, names: _Names) -> None:
        for item in group.items:
            if isinstance(item, Box):
                self.namespaces[item] = namespace
                continue
            title = item.title().translate(_SEPARATORS)
            inner = names.make_unique(f"{namespace}/{title}" if namespace else title)
            about = {"class": item.kind, "module": item.path}
            self.groups[inner] = {key: text for key, text in about.items() if text}
            self._enter_group(item, inner, names)

    def graph_collection(self) -> dict[str, Any]:
        """Return the collection of one graph."""
        nodes = [*map(self._node_entry, self.ids), *self._constant_entries()]
        graph = {"id": self.name, "nodes": nodes, "groupNodeAttributes": self.groups}
        return {"label": self.name, "graphs": [graph]}

    def _node_entry(self, box: Box) -> dict[str, Any]:
        rows = [(row.name, row.text) for row in box.attributes if self.attributes]
        edges = [
            _edge_entry(self.ids[edge.source], edge.index, edge.output) for edge in self.reads[box]
        ]
        for row in box.weights:
            if row.constant in self.constant_ids:
                edges.append(_edge_entry(self.constant_ids[row.constant], row.index))
            elif self.weights:
                rows.append((row.name, row.text))
        if box.role != "node":
            rows.append(("type", box.role))
        foreign = box.role == "node" and box.note not in ("", "ai.onnx")
        node = {
            "id": self.ids[box],
            "label": f"{box.note}.{box.title}" if foreign else box.title,
            "namespace": self.namespaces[box],
            "attrs": _key_values([*rows, *box.about.items()]),
            "incomingEdges": edges,
            "inputsMetadata": [
                {"id": str(edge.index), "attrs": _key_values([("__tensor_tag", edge.name)])}
                for edge in self.reads[box]
            ],
        }
        results = zip(box.results, box.outputs, strict=True)
        node["outputsMetadata"] = [_result_entry(n, *result) for n, result in enumerate(results)]
        return node

    def _constant_entries(self) -> Iterator[dict[str, Any]]:
        """A weight lies in the module of the first node that reads it."""
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
        """Return the name of an overlay and its node data."""
        if overlay == "dtype":
            texts = {box: box.outputs[0].partition("[")[0] for box in self.ids if box.outputs}
        elif overlay == "rewrite":
            texts = {box: box.about.get(REWRITES, "") for box in self.ids}
        else:
            times = self._times_by_id(_read_kernels(overlay))
            rounded = {name: {"value": round(us, 3)} for name, us in times.items()}
            return "time", {"results": rounded, "gradient": _GRADIENT}
        results = {
            self.ids[box]: {"value": text, "bgColor": color_of(text)}
            for box, text in texts.items()
            if text
        }
        return str(overlay), {"results": results}

    def _times_by_id(self, kernels: Iterable[tuple[list[str], float]]) -> dict[str, float]:
        """Return microseconds by id; nodes that one kernel computes share its time."""
        ids = {result: self.ids[box] for box in self.ids for result in box.results if result}
        times: defaultdict[str, float] = defaultdict(float)
        for results, us in kernels:
            nodes = [ids[result] for result in results if result in ids]
            for name in nodes:
                times[name] += us / len(nodes)
        if not times:
            raise OptionError("the profile is of another model: it has no node of the graph")
        return dict(times)


def _edge_entry(source: str, place: int, output: int = 0) -> dict[str, str]:
    ends = {"sourceNodeOutputId": str(output), "targetNodeInputId": str(place)}
    return {"sourceNodeId": source, **ends}


def _result_entry(number: int, name: str, type: str) -> dict[str, Any]:
    return {
        "id": str(number),
        "attrs": _key_values([("__tensor_tag", name), ("tensor_shape", type)]),
    }


def _key_values(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Keys and values without the empty ones; of one key the last one is left."""
    return [{"key": key, "value": text} for key, text in dict(pairs).items() if text]


def _read_kernels(overlay: Overlay) -> list[tuple[list[str], float]]:
    """Return first results of the nodes that each kernel computes, and its microseconds."""
    if not isinstance(overlay, str | os.PathLike):
        return [(node["results"], node["us"]) for node in overlay.as_dict()["nodes"]]
    path = Path(overlay)
    if path.suffix != ".json":
        raise OptionError(
            f"overlays are 'dtype', 'rewrite', a profile, or the .json of one, not {overlay!r}"
        )
    try:
        nodes = json.loads(path.read_text(encoding="utf-8"))["nodes"]
        return [([*node["results"]], float(node["us"])) for node in nodes]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' is no profile of ortable: {error}") from error
