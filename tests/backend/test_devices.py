"""Providers and devices without an accelerator: CUDA tensors, streams and sessions are fakes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import onnxruntime
import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import ortable
from ortable import OrtOptions
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.runner import _find_constants_obstacle, run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import compile_graph
from ortable.backend.sessions import device_run, providers, session
from ortable.compat.onnxruntime import ort_device
from ortable.compat.providers import check_providers
from ortable.errors import FallbackWarning, OptionError, ProviderError
from ortable.ir import versions

CUDA = "CUDAExecutionProvider"
AZURE = "AzureExecutionProvider"  # it runs nodes of remote models only
NEEDS_AZURE = pytest.mark.skipif(
    AZURE not in onnxruntime.get_available_providers(),
    reason="this build of ONNX Runtime has no second provider for tensors of the CPU",
)


def trace(fn, *arguments):
    """Return the ATen graph of `fn`; an argument is `(shape, dtype, device)`."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        values = [torch.empty(s, dtype=t, device=d) for s, t, d in arguments]
        return make_fx(fn)(*values)


def cuda_argument(shape=(2, 3), dtype=torch.float32, index=0):
    return shape, dtype, f"cuda:{index}"


class Stream:
    """A stand-in for `torch.cuda.Stream` that logs which stream waits for which."""

    def __init__(self, number, log):
        self.cuda_stream, self.log = number, log
        self.device = torch.device("cuda", 0)

    def wait_stream(self, other):
        self.log.append(f"{self.cuda_stream} waits for {other.cuda_stream}")


@pytest.fixture
def streams(monkeypatch):
    """Fake torch's current stream; return the log of waits and the stack of stream numbers."""
    log, current = [], [7]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream(current[-1], log))
    return log, current


@pytest.fixture
def gpu_build(monkeypatch):
    """Simulate an ONNX Runtime with CUDA, whose sessions run on the CPU and log their arguments."""
    log = []
    real = onnxruntime.InferenceSession

    class RecordingSession:
        def __init__(self, model, options, providers, **arguments):
            log.append(("session", providers))
            self.real = real(model, options, providers=["CPUExecutionProvider"])
            self.names = [p if isinstance(p, str) else p[0] for p in providers]
            self.provider_options = {
                p[0]: {**p[1], "arena": ""} for p in providers if not isinstance(p, str)
            }
            self._sess = self

        def get_providers(self):
            return self.names

        def get_provider_options(self):
            return self.provider_options

        def get_provider_graph_assignment_info(self):
            return []  # none in the CPU provider

        def run_with_ortvaluevector(self, run_options, names, values, fetches, results, devices):
            kinds = [(device.device_type(), device.device_id()) for device in devices]
            key = "disable_synchronize_execution_providers"
            try:
                entry = run_options.get_run_config_entry(key)
            except RuntimeError:
                entry = ""
            log.append(("run", kinds, entry))
            cpu = [ort_device("cpu")] * len(devices)
            self.real._sess.run_with_ortvaluevector(
                run_options, names, values, fetches, results, cpu
            )

    names = [CUDA, "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: names)
    monkeypatch.setattr(onnxruntime, "InferenceSession", RecordingSession)
    return log


def convert(graph, options):
    """Convert a graph for the providers that support its devices."""
    return compile_graph(AotGraph(graph), providers.resolve_providers(graph, options))


def test_the_cpu_is_chosen_for_tensors_of_the_cpu():
    graph = trace(lambda x: x + 1, ((2,), torch.float32, "cpu"))
    assert providers.resolve_providers(graph, OrtOptions()).providers == ("CPUExecutionProvider",)
    storage = {}
    torch.compile(lambda x: x + 1, backend="ortable", options={"storage": storage})(torch.ones(2))
    assert storage["instance"][0]["providers"] == ["CPUExecutionProvider"]


def test_cuda_tensors_without_a_cuda_build_name_package_and_device():
    graph = trace(lambda x: x + 1, cuda_argument())
    with pytest.raises(ProviderError) as error:
        convert(graph, OrtOptions())
    text = str(error.value)
    assert "Argument 0 (x_1) is on cuda:0" in text
    assert "has only the providers " in text and "CPUExecutionProvider" in text
    assert "'onnxruntime-gpu' in place of 'onnxruntime'" in text


def test_cuda_tensors_with_providers_of_the_cpu_are_refused():
    graph = trace(lambda x: x + 1, cuda_argument())
    with pytest.raises(ProviderError, match=r"is on cuda:0.*Add 'CUDAExecutionProvider'"):
        convert(graph, OrtOptions(providers=["CPUExecutionProvider"]))


def test_a_graph_that_makes_its_tensors_on_cuda_is_one_of_cuda(gpu_build):
    graph = trace(lambda: torch.zeros(3, device="cuda:0") + 1)
    assert providers.graph_device(graph) == "cuda:0"
    assert convert(graph, OrtOptions()).fetches[0].device == "cuda:0"


def test_devices_that_no_provider_serves_are_refused():
    graph = trace(lambda x: x + 1, ((2,), torch.float32, "xpu"))
    with pytest.raises(ProviderError, match=r"is on xpu:0.*only CPU and CUDA"):
        convert(graph, OrtOptions())


def test_two_accelerators_in_one_graph_are_refused(gpu_build):
    graph = trace(lambda x, y: (x + 1, y + 1), cuda_argument(), cuda_argument(index=1))
    with pytest.raises(ProviderError, match=r"one accelerator.*cuda:0.*cuda:1"):
        convert(graph, OrtOptions())


def test_device_index_and_user_s_options_reach_the_provider(gpu_build):
    graph = trace(lambda x: x + 1, cuda_argument(index=1))
    requested = OrtOptions(providers=[(CUDA, {"gpu_mem_limit": "1000"}), "CPUExecutionProvider"])
    resolved = providers.resolve_providers(graph, requested).providers
    assert resolved == (
        (CUDA, {"gpu_mem_limit": "1000", "device_id": "1"}),
        "CPUExecutionProvider",
    )
    assert (
        providers.resolve_providers(graph, providers.resolve_providers(graph, requested)).providers
        == resolved
    )
    with pytest.raises(ProviderError, match=r"is on cuda:1.*device_id 0"):
        providers.resolve_providers(graph, OrtOptions(providers=[(CUDA, {"device_id": 0})]))


def test_mixed_arguments_and_results_know_their_devices(gpu_build):
    def fn(x, scale):
        return x * scale, (x + 1).cpu()

    compiled = convert(trace(fn, cuda_argument(), ((), torch.float32, "cpu")), OrtOptions())
    assert compiled.device == "cuda:0"
    assert [role.device for role in compiled.inputs] == ["cuda:0", "cpu"]
    assert [fetch.device for fetch in compiled.fetches] == ["cuda:0", "cpu"]


def make_backend(fn, *arguments, **options):
    graph = trace(fn, *arguments)
    resolved = providers.resolve_providers(graph, OrtOptions(**options))
    return run_with_onnxruntime(compile_graph(AotGraph(graph), resolved), resolved)


def test_a_cuda_session_runs_on_torch_s_stream(gpu_build, streams):
    log, _ = streams
    backend = make_backend(lambda x, y: x @ y, cuda_argument(), cuda_argument((3, 4)))
    settings = {"use_tf32": "0", "device_id": "0", "user_compute_stream": "7"}
    assert gpu_build == [("session", [(CUDA, settings), "CPUExecutionProvider"])]
    x, y = torch.randn(2, 3), torch.randn(3, 4)  # CPU tensors in place of CUDA tensors
    [result] = backend([x, y])
    torch.testing.assert_close(result, x @ y)
    gpu = onnxruntime.capi._pybind_state.OrtDevice.cuda()
    assert gpu_build[1:] == [("run", [(gpu, 0)], "")]
    assert log == []


def test_weights_are_constants_on_cuda_for_who_trusts_them(gpu_build, streams):
    """On CUDA, a call cannot check weights for writes without synchronizing with the device."""
    graph = trace(lambda x, w: x @ w, cuda_argument(), cuda_argument((3, 4)))

    def make_frozen_backend(**options):
        resolved = providers.resolve_providers(graph, OrtOptions(**options))
        compiled = compile_graph(AotGraph(graph), resolved)
        x, w = compiled.inputs
        weights = replace(compiled, inputs=(x, replace(w, static=True)))
        return run_with_onnxruntime(weights, resolved)

    assert "freeze='trust'" in make_frozen_backend().frozen
    assert "option weights" in make_frozen_backend(freeze="trust", weights="keep").frozen
    gpu_build.clear()
    backend = make_frozen_backend(freeze="trust")
    assert len(backend.frozen) == 1
    x, w = torch.randn(2, 3), torch.nn.Parameter(torch.randn(3, 4))
    for _ in range(2):
        [result] = backend([x, w])
        torch.testing.assert_close(result, (x @ w).detach())
    assert [entry[0] for entry in gpu_build] == ["session", "run", "run"]
    assert "data_ptr" not in backend.source


def test_products_are_rounded_to_tf32_where_torch_may(gpu_build, streams):
    original = torch.backends.cuda.matmul.fp32_precision
    torch.set_float32_matmul_precision("high")
    try:
        make_backend(lambda x: x + 1, cuda_argument())
        make_backend(lambda x: x + 1, cuda_argument(), providers=[(CUDA, {"use_tf32": "0"})])
    finally:
        torch.set_float32_matmul_precision("highest")
        # Guards distinguish the unset state from "ieee".
        torch.backends.cuda.matmul.fp32_precision = original
    make_backend(lambda x: x + 1, cuda_argument())
    assert [entry[1][0][1]["use_tf32"] for entry in gpu_build] == ["1", "0", "0"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_statistics_that_batch_norm_keeps_on_cuda(gpu_build, dtype):
    """In eval mode, the saved statistics on CUDA are the running ones, in float32."""
    shapes = (2, 3, 4, 4), (3,), (3,)
    graph = trace(
        lambda x, m, v: torch.ops.aten._native_batch_norm_legit_no_training(
            x, None, None, m, v, 0.1, 1e-5
        ),
        *[cuda_argument(shape, dtype) for shape in shapes],
    )
    outputs = convert(graph, OrtOptions()).model.graph.output
    assert [len(value.type.tensor_type.shape.dim) for value in outputs] == [4, 1, 1]
    assert {value.type.tensor_type.elem_type for value in outputs[1:]} == {1}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nodes_without_a_kernel_in_half_precision_are_cast(gpu_build, dtype):
    """On CUDA, no kernel compares bfloat16 values, and the norm of float16 values overflows."""

    def count_casts(function):
        model = convert(trace(function, cuda_argument(dtype=dtype)), OrtOptions()).model
        return [node.op_type for node in model.graph.node].count("Cast")

    assert (count_casts(lambda x: x > 1) > 0) == (dtype is torch.bfloat16)
    assert count_casts(lambda x: torch.linalg.vector_norm(x, 2)) > 0
    assert count_casts(lambda x: torch.softmax(x, -1)) == 0


def test_the_opset_is_one_at_which_cuda_pools(gpu_build):
    """ONNX Runtime's MaxPool of opset 22 runs only on the CPU, so CUDA tensors would be copied."""

    def get_opset(**options):
        graph = trace(lambda x: torch.nn.functional.max_pool2d(x, 2), cuda_argument((1, 2, 4, 4)))
        return convert(graph, OrtOptions(**options)).model.opset_import[0].version

    assert get_opset() == versions.ORT_CUDA_OPSET < versions.ORT_MAX_OPSET
    assert get_opset(target_opset=26) == 26


def test_another_current_stream_is_ordered_by_events(gpu_build, streams):
    """Later runs wait for the caller's stream, whichever stream calls them.

    That stream may still read results whose memory ONNX Runtime has taken back.
    """
    log, current = streams
    backend = make_backend(lambda x: x + 1, cuda_argument())
    current.append(9)
    x = torch.randn(2, 3)
    [result] = backend([x])
    torch.testing.assert_close(result, x + 1)
    assert log == ["7 waits for 9", "9 waits for 7"]
    log.clear()
    current.append(11)
    backend([x])
    assert log == ["7 waits for 9", "7 waits for 11", "11 waits for 7"]
    log.clear()
    current.append(7)
    backend([x])
    assert log == ["7 waits for 9", "7 waits for 11"]


def test_the_default_stream_is_stood_for_by_one_of_torch_s_pool(gpu_build, streams, monkeypatch):
    """ONNX Runtime treats handle 0 as no stream and would run without ordering."""
    log, current = streams
    current.append(0)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(33, log))
    device_run._pool_stream.cache_clear()
    try:
        backend = make_backend(lambda x: x + 1, cuda_argument())
        make_backend(lambda x: x + 2, cuda_argument())
    finally:
        device_run._pool_stream.cache_clear()
    sessions = [entry[1][0][1]["user_compute_stream"] for entry in gpu_build]
    assert sessions == ["33", "33"]
    backend([torch.randn(2, 3)])
    assert log == ["33 waits for 0", "0 waits for 33"]


def test_a_session_that_does_not_take_the_stream_is_refused():
    class Session:
        get_providers = staticmethod(lambda: [CUDA])
        get_provider_options = staticmethod(lambda: {CUDA: {"user_compute_stream": "0"}})

    with pytest.raises(ProviderError, match="did not take torch's stream 7, but 0"):
        session.check_session(Session, [(CUDA, {"user_compute_stream": "7"})])


def test_the_host_waits_for_each_run(gpu_build, streams):
    """Without the wait, ONNX Runtime keeps pinned memory and aborts when a session is destroyed."""
    for fn, *arguments in (
        (lambda x: x + 1, cuda_argument()),
        (lambda x, s: x * s, cuda_argument(), ((), torch.float32, "cpu")),
        (lambda x: (x + 1).cpu(), cuda_argument()),
    ):
        make_backend(fn, *arguments)([torch.randn(a[0]) for a in arguments])
    assert [entry[2] for entry in gpu_build if entry[0] == "run"] == ["", "", ""]


def test_run_options_of_the_user_are_left_alone(gpu_build, streams):
    user_run_options = onnxruntime.RunOptions()
    backend = make_backend(lambda x: x + 1, cuda_argument(), run_options=user_run_options)
    backend([torch.randn(2, 3)])
    assert gpu_build[-1][2] == ""


def test_a_stream_of_the_user_is_kept(gpu_build, streams, monkeypatch):
    log, _ = streams
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda pointer, device: Stream(pointer, log))
    requested = [(CUDA, {"user_compute_stream": "5"})]
    backend = make_backend(lambda x: x + 1, cuda_argument(), providers=requested)
    assert gpu_build[0][1][0][1]["user_compute_stream"] == "5"
    backend([torch.randn(2, 3)])
    assert log == ["5 waits for 7", "7 waits for 5"]


def test_a_vector_run_on_the_cpu_equals_the_session_s_own():
    """Run :class:`DeviceRun` with a real session and a real device."""
    graph = trace(lambda x, y: (x + y, x > y), *[((2, 3), torch.float32, "cpu")] * 2)
    options = providers.resolve_providers(graph, OrtOptions())
    compiled = compile_graph(AotGraph(graph), options)
    backend = run_with_onnxruntime(compiled, options)
    assert compiled.device == "cpu" and backend._execute is None
    x, y = torch.randn(2, 3), torch.randn(2, 3)

    def execute(session):
        return device_run.DeviceRun(session, Stream(7, []), ["cpu", "cpu"])._run_session

    vector_backend = OrtBackend(compiled, backend.session, backend.run_options, execute=execute)
    for a, b in zip(backend([x, y]), vector_backend([x, y]), strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casts_that_only_the_cpu_needs_are_not_made_for_cuda(gpu_build, dtype):
    def fn(x, y):
        return torch.relu(x @ y) * 2

    def get_operators(device):
        arguments = [((2, 3), dtype, device), ((3, 4), dtype, device)]
        return [n.op_type for n in convert(trace(fn, *arguments), OrtOptions()).model.graph.node]

    assert "Cast" not in get_operators("cuda:0")
    if dtype is torch.bfloat16:
        assert "Cast" in get_operators("cpu")


def test_casts_of_integers_are_made_for_cuda_too(gpu_build):
    """A node without a CUDA kernel runs on the CPU, which has no MatMul for int16."""
    models = [
        convert(trace(torch.mm, *[((2, 2), torch.int16, device)] * 2), OrtOptions()).model
        for device in ("cpu", "cuda:0")
    ]
    operators = [[node.op_type for node in model.graph.node] for model in models]
    assert operators[0] == operators[1] and "Cast" in operators[0]


def test_duplicate_providers_are_refused_by_name():
    with pytest.raises(OptionError, match=r"each provider once \(CPUExecutionProvider\)"):
        OrtOptions(providers=["CPUExecutionProvider", ("CPUExecutionProvider", {})])


@NEEDS_AZURE
def test_order_of_providers_is_kept_and_the_cpu_is_the_last_resort():
    for names, expected in (
        (["AzureExecutionProvider"], ["AzureExecutionProvider", "CPUExecutionProvider"]),
        (["CPUExecutionProvider", "AzureExecutionProvider"],) * 2,
    ):
        torch._dynamo.reset()
        storage = {}
        options = {"providers": names, "storage": storage, "hints": False}
        fn = torch.compile(lambda x: x * 2, backend="ortable", options=options)
        torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))
        assert storage["instance"][0]["providers"] == expected


@NEEDS_AZURE
@pytest.mark.parametrize("trains", [False, True])
def test_nodes_that_a_provider_does_not_run_are_counted(trains, monkeypatch):
    """The warning comes once per operator, for sessions of torch.compile and of programs."""
    monkeypatch.setattr("ortable.compat.providers._warned_nodes", set())
    storage = {}
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()).train(trains)
    x = torch.randn(2, 3, requires_grad=trains)
    options = {"providers": [AZURE], "storage": storage}
    with torch.set_grad_enabled(trains):
        fast = torch.compile(module, backend="ortable", options=options)
        with pytest.warns(FallbackWarning, match="Azure.* leaves 2 of a session's nodes.*Tanh 1"):
            result = fast(x)
        torch.testing.assert_close(result, module(x))
        assert storage["instance"][0].cpu_nodes == {"Gemm": 1, "Tanh": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            ortable.export(module.eval(), (x.detach(),)).session(providers=[AZURE])


@NEEDS_AZURE
def test_explain_lists_the_nodes_of_the_cpu():
    explained = ortable.explain(torch.tanh, torch.ones(2), options={"providers": [AZURE]})
    assert explained.graphs[0].cpu_nodes == {"Tanh": 1}
    assert f"1 node run in CPUExecutionProvider, not in {AZURE}: Tanh 1" in str(explained)


@pytest.mark.parametrize("is_installed", [False, True])
def test_a_plugin_that_is_not_registered_gets_the_lines(is_installed, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: is_installed or None)
    with pytest.raises(ProviderError) as error:
        check_providers(["OpenVINOExecutionProvider"])
    text = str(error.value)
    assert ("'onnxruntime-ep-openvino' is installed" in text) == is_installed
    assert ("Install the package 'onnxruntime-ep-openvino' beside" in text) != is_installed
    assert "register_execution_provider_library('OpenVINOExecutionProvider', onnx" in text


def test_a_plugin_takes_constants(monkeypatch):
    """tests/portable runs a real plugin."""
    device = SimpleNamespace(ep_name="Plugin")
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [device])
    for names, obstacle in (
        (["Plugin"], ""),
        (["Plugin", "CPUExecutionProvider"], ""),
        ([AZURE], "only the CPU"),
    ):
        assert _find_constants_obstacle(OrtOptions(providers=names)).startswith(obstacle)
        assert bool(_find_constants_obstacle(OrtOptions(providers=names))) == bool(obstacle)
    assert _find_constants_obstacle(OrtOptions(providers=["Plugin"], weights="int8"))


def test_a_session_options_object_with_providers_is_refused():
    """ONNX Runtime would drop them for those that ortable passes."""
    settings = onnxruntime.SessionOptions()
    settings.add_provider_for_devices(onnxruntime.get_ep_devices()[:1], {})
    with pytest.raises(OptionError, match="already has providers, but CPUExecutionProvider"):
        ortable.export(torch.nn.Tanh(), (torch.ones(2),)).session(session_options=settings)
    fast = torch.compile(torch.tanh, backend="ortable", options={"session_options": settings})
    with pytest.raises(BackendCompilerFailed, match="already has providers"):
        fast(torch.ones(2))


def test_an_option_that_a_provider_does_not_have_is_refused():
    providers = [("CPUExecutionProvider", {"arena": "1"})]
    fn = torch.compile(lambda x: x + 1, backend="ortable", options={"providers": providers})
    with pytest.raises(BackendCompilerFailed, match=r"has no option arena; it has none"):
        fn(torch.ones(2))


def test_an_unknown_option_of_cuda_lists_the_known(gpu_build):
    class Session:
        get_providers = staticmethod(lambda: [CUDA])
        get_provider_options = staticmethod(lambda: {CUDA: {"device_id": "0", "do_copy": "1"}})

    with pytest.raises(OptionError, match=r"no option memory; known: device_id, do_copy"):
        session.check_session(Session, [(CUDA, {"memory": "1"})])


def test_a_provider_that_does_not_start_is_an_error():
    """If the CUDA libraries are missing, ONNX Runtime only warns and continues on the CPU."""

    class Session:
        get_providers = staticmethod(lambda: ["CPUExecutionProvider"])
        get_provider_options = staticmethod(dict)

    with pytest.raises(ProviderError, match=r"'CUDAExecutionProvider' could not start"):
        session.check_session(Session, [CUDA, "CPUExecutionProvider"])
