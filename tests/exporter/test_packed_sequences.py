"""Packed sequences in exports: recurrent layers over sequences of different lengths."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import ortable
from ortable.compat.torch import pytree

SHAPES: Any = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
NETWORKS = {"LSTM", "GRU", "RNN"}
CALLS = ([5, 3, 1], [2], [6, 6, 4, 1], [1], [1, 1])


class Packed(nn.Module):
    """Pack, run a layer, and pad again; ``options`` are those of `pad_packed_sequence`."""

    def __init__(self, layer: nn.Module, enforce_sorted: bool = False, **options: Any) -> None:
        super().__init__()
        self.layer, self.enforce_sorted, self.options = layer, enforce_sorted, options

    def forward(self, x, lengths, hx=None):
        packed = pack_padded_sequence(
            x, lengths, self.layer.batch_first, enforce_sorted=self.enforce_sorted
        )
        output, states = self.layer(packed, hx)
        return pad_packed_sequence(output, self.layer.batch_first, **self.options), states


def make_call(lengths: list[int], steps: int = 0, width: int = 3) -> tuple[Any, ...]:
    torch.manual_seed(len(lengths))
    return torch.randn(len(lengths), steps or max(lengths) + 1, width), torch.tensor(lengths)


def export(module: nn.Module, shapes: Any = SHAPES, **options: Any) -> ortable.OnnxProgram:
    return ortable.export(module.eval(), make_call([3, 2, 1]), dynamic_shapes=shapes, **options)


def assert_equal(program: ortable.OnnxProgram, module: nn.Module, *call: Any) -> None:
    expected, actual = module(*call), program(*call)
    leaves = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
    for reference, value in zip(*leaves, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(lambda: nn.LSTM(3, 4, 2, bidirectional=True, dropout=0.5), id="lstm"),
        pytest.param(lambda: nn.LSTM(3, 4, batch_first=True, proj_size=2), id="projected"),
        pytest.param(lambda: nn.GRU(3, 4, 2, batch_first=True, bias=False), id="gru"),
        pytest.param(lambda: nn.RNN(3, 4, bidirectional=True), id="tanh"),
        pytest.param(lambda: nn.RNN(3, 4, batch_first=True, nonlinearity="relu"), id="relu"),
    ],
)
def test_packed_layers_equal_eager(layer: Any, enforce_sorted: bool) -> None:
    module = Packed(layer(), enforce_sorted).eval()
    axes = (0, 1) if module.layer.batch_first else (1, 0)
    shapes = {"x": {axes[0]: "batch", axes[1]: "steps"}, "lengths": {0: "batch"}}

    def make(lengths: list[int]) -> tuple[Any, ...]:
        x, _ = make_call(lengths)
        return x if module.layer.batch_first else x.transpose(0, 1), torch.tensor(lengths)

    program = ortable.export(module, make([3, 2, 1]), dynamic_shapes=shapes)
    assert "Compress" not in {node.op_type for node in program.model_proto.graph.node}
    layers = [node for node in program.model_proto.graph.node if node.op_type in NETWORKS]
    assert layers and all(node.input[4] for node in layers)  # sequence_lens
    for lengths in CALLS if enforce_sorted else (*CALLS, [1, 5, 3], [2, 2, 7, 1]):
        assert_equal(program, module, *make(lengths))


@pytest.mark.parametrize("layer_type", [nn.LSTM, nn.GRU])
def test_initial_states_follow_their_sequences(layer_type: Any) -> None:
    module = Packed(layer_type(3, 4, batch_first=True, bidirectional=True)).eval()

    def make(lengths: list[int]) -> tuple[Any, ...]:
        hidden = torch.randn(2, len(lengths), 4)
        return *make_call(lengths), (hidden, hidden + 1) if layer_type is nn.LSTM else hidden

    state: Any = {1: "batch"}
    shapes = {**SHAPES, "hx": (state, state) if layer_type is nn.LSTM else state}
    program = ortable.export(module, make([2, 3]), dynamic_shapes=shapes)
    for lengths in ([1, 4, 2], [3]):
        assert_equal(program, module, *make(lengths))


class Fields(Packed):
    """Change the data of a packed sequence before and after the layer."""

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        packed = packed._replace(data=torch.relu(packed.data * 2 - 1))
        packed, _ = self.layer(packed)
        packed = PackedSequence(packed.data[:, :2], *packed[1:])
        return pad_packed_sequence(packed, True, padding_value=-1), packed


class ByMask(Packed):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.layer(packed)[0], True, total_length=x.shape[1])
        return (output * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)


class OwnLstm(nn.LSTM):
    def forward(self, input, hx=None):
        return super().forward(input, hx)


def gru() -> nn.GRU:
    return nn.GRU(3, 4, batch_first=True)


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        pytest.param(lambda: Fields(gru()), SHAPES, id="fields"),
        pytest.param(lambda: ByMask(gru()), SHAPES, id="mask"),
        pytest.param(lambda: Packed(OwnLstm(3, 4, batch_first=True)), SHAPES, id="subclass"),
        pytest.param(
            lambda: Packed(gru(), total_length=9, padding_value=0.5),
            {"x": {0: "batch", 1: Dim("steps", max=9)}, "lengths": {0: "batch"}},
            id="total_length",
        ),
    ],
)
def test_uses_of_packed_sequences_equal_eager(module: Any, shapes: Any) -> None:
    module = module()
    program = export(module, shapes)
    for lengths in (*CALLS, [1, 5, 3]):
        assert_equal(program, module, *make_call(lengths))


def test_nan_behind_the_end_of_a_sequence_changes_nothing() -> None:
    module = Packed(nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True))
    program = export(module)
    x, lengths = make_call([2, 4, 1], steps=5)
    x[0, 2:] = torch.nan
    assert_equal(program, module, x, lengths)
    x[1, 3] = torch.nan
    assert_equal(program, module, x, lengths)


@pytest.mark.parametrize("lengths", [[3, 0, 1], [-1, 2, 1], [5, 2, 1], [2, 3, 1]])
def test_a_program_refuses_the_lengths_that_eager_refuses(lengths: list[int]) -> None:
    module = Packed(gru(), enforce_sorted=True)
    program = export(module)
    call = make_call(lengths, steps=4)
    with pytest.raises(RuntimeError):
        module(*call)
    with pytest.raises(ortable.InputError, match="lengths of packed sequences"):
        program(*call)
    with pytest.raises(ortable.InputError, match="Cannot pack empty tensors"):
        program(torch.rand(0, 4, 3), torch.zeros(0, dtype=torch.int64))


class ByList(Packed):
    def forward(self, x, lengths):
        return self.layer(pack_padded_sequence(x, lengths.tolist(), True))[1]


class OwnGru(nn.GRU):
    def forward(self, input, hx=None):
        return super().forward(input, hx)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: Packed(gru(), total_length=9), r"(?s)in forward.*total_length=x.size\(1\)"),
        (lambda: ByList(gru()), r"(?s)in forward.*pass the tensor of lengths itself"),
        (lambda: Packed(OwnGru(3, 4, batch_first=True)), r"(?s)in forward.*not a subclass"),
        (lambda: Packed(gru()).double(), "float64, for which ONNX Runtime has no kernel"),
    ],
)
def test_what_cannot_be_exported_is_named(module: Any, message: str) -> None:
    module = module().eval()
    x, lengths = make_call([3, 2, 1])
    call = x.to(next(module.parameters()).dtype), lengths
    with pytest.raises(ortable.OrtableError, match=message):
        ortable.export(module, call, dynamic_shapes=SHAPES)


def test_the_layers_are_restored() -> None:
    module = Packed(gru())
    export(module)
    assert "forward" not in vars(module.layer)


@pytest.mark.parametrize("option", ["tracing", "fallback", "validate"])
def test_other_captures_trace_packed_sequences(option: str) -> None:
    module = Packed(gru())
    options = ortable.ExportOptions(**{option: True})
    program = export(module, export_options=options)
    assert_equal(program, module, *make_call([2, 4]))


def test_a_compiled_module_equals_eager() -> None:
    module = Packed(nn.LSTM(3, 4, batch_first=True, bidirectional=True)).eval()
    with torch.no_grad():
        compiled: Any = torch.compile(module, backend="ortable")
        for lengths in ([3, 1], [2, 4]):
            assert_equal(compiled, module, *make_call(lengths))


# -- models of tutorials


class Classifier(nn.Module):
    """Classify texts by the last states of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, dropout=0.5, batch_first=True)
        self.dropout, self.head = nn.Dropout(0.5), nn.Linear(10, 3)

    def forward(self, tokens, lengths):
        embedded = self.dropout(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, lengths.cpu(), True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(self.dropout(torch.cat([hidden[-2], hidden[-1]], dim=1)))


class Translator(nn.Module):
    """One step of a decoder with attention over the outputs of a packed encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(20, 6), nn.GRU(6, 5, bidirectional=True)
        self.bridge, self.decoder = nn.Linear(10, 5), nn.GRUCell(16, 5)
        self.score, self.head = nn.Linear(15, 1), nn.Linear(5, 20)

    def forward(self, tokens, lengths, previous):
        packed = pack_padded_sequence(self.embedding(tokens.t()), lengths, enforce_sorted=True)
        outputs, hidden = self.encoder(packed)
        outputs, output_lengths = pad_packed_sequence(outputs)
        state = torch.tanh(self.bridge(torch.cat([hidden[0], hidden[1]], dim=1)))
        outputs = outputs.transpose(0, 1)
        repeated = state[:, None].expand(-1, outputs.shape[1], -1)
        scores = self.score(torch.cat([repeated, outputs], dim=2)).squeeze(2)
        mask = torch.arange(outputs.shape[1])[None] < output_lengths[:, None]
        weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=1)
        context = (weights[:, None] @ outputs).squeeze(1)
        state = self.decoder(torch.cat([self.embedding(previous), context], dim=1), state)
        return self.head(state), state, weights


@pytest.mark.parametrize("model", [Classifier, Translator])
def test_models_of_tutorials_equal_eager(model: Any) -> None:
    module = model().eval()

    def make(lengths: list[int]) -> tuple[Any, ...]:
        tokens = torch.randint(1, 20, (len(lengths), max(lengths)))
        call = tokens, torch.tensor(lengths)
        return (*call, tokens[:, 0]) if model is Translator else call

    shapes = {"tokens": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    if model is Translator:
        shapes["previous"] = {0: "batch"}
    program = ortable.export(module, make([4, 3, 2]), dynamic_shapes=shapes)
    for lengths in itertools.chain(CALLS, [[7, 7, 2]]):
        assert_equal(program, module, *make(lengths))
