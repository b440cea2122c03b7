"""Load models of transformers by folder, name on the hub, or class, with an example call.

Nothing is downloaded. Without --inputs, the parameters of `forward`, the model's configuration and
its tokenizer determine the example inputs.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortable.compat.transformers import is_automatic, models_of
from ortable.errors import ExportError, InputError, OptionError

from .arguments import parse_pairs
from .model_call import Target, make_inputs

TEXT_GENERATION = "text-generation"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_OTHER_FILES = (".onnx", ".pt2", ".py")  # suffixes of targets that transformers does not load


def is_transformers_name(target_name: str) -> bool:
    """Whether a target is a folder with config.json, a name on the hub (owner/name), or a class.

    A misspelled name of a model class counts, so that the error suggests the class.
    """
    if (Path(target_name) / "config.json").is_file():
        return True
    if ":" in target_name or target_name.endswith(_OTHER_FILES) or Path(target_name).exists():
        return False
    if _HUB_NAME.fullmatch(target_name):
        return True
    if not target_name.isidentifier() or importlib.util.find_spec("transformers") is None:
        return False
    return _is_class_name(target_name)


def _is_class_name(name: str) -> bool:
    """Whether ``name`` is a class of transformers, or similar to the name of a model class."""
    import transformers

    if isinstance(getattr(transformers, name, None), type):
        return True
    return name[:1].isupper() and bool(_find_close_classes(name))


def _find_close_classes(name: str) -> list[str]:
    import transformers

    models = [
        candidate
        for candidate in dir(transformers)
        if "For" in candidate or candidate.endswith("Model")
    ]
    return difflib.get_close_matches(name, models, n=1)


def load_transformers_target(
    target_name: str, task: str, config: Sequence[str], inputs: Sequence[str]
) -> Target:
    """Load a model in eval mode, with its task, its tokenizer, and an example call.

    Args:
        target_name: a folder, a name on the hub, or a class, which gets random weights.
        task: the value of --task, or an empty string.
        config: the values of --config, ``hidden_size=64`` or a folder; only for a class.
        inputs: the values of --inputs, which replace the generated inputs.

    Raises:
        ExportError: transformers, the model or some of its weights are not on this machine.
        OptionError: a task, a field of --config or an input is invalid.
        InputError: no value can be generated for an input that the model needs.
    """
    if importlib.util.find_spec("transformers") is None:
        raise ExportError(f"{target_name} is a model of transformers: pip install transformers")
    with _silence_transformers():
        is_pretrained = _HUB_NAME.fullmatch(target_name) or Path(target_name).is_dir()
        model = (
            _load_pretrained(target_name, task, config)
            if is_pretrained
            else _make_random_model(target_name, task, config)
        )
        tokenizer = _load_tokenizer(target_name) if is_pretrained else None
    model.eval()
    model_task = task or _task_of(model)
    if inputs:
        return replace(make_inputs(inputs), model=model, task=model_task, tokenizer=tokenizer)
    if model_task == TEXT_GENERATION:
        tokenizer_names: Sequence[str] = ()
    else:
        tokenizer_names = getattr(tokenizer, "model_input_names", ())
    kwargs, free = example_call(model, tokenizer_names)
    return Target(model, (), kwargs, None, free, model_task, tokenizer)


@contextmanager
def _silence_transformers() -> Iterator[None]:
    """Silence the logs and progress bars of transformers."""
    from transformers.utils import logging

    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()


# -- a folder, or a model of the hub that was downloaded before


def _load_pretrained(target_name: str, task: str, config_words: Sequence[str]) -> Any:
    if config_words:
        raise OptionError(
            "--config is for a class, whose weights are random; a folder has a configuration"
        )
    config = _load_config(target_name)
    model_class = _find_class(target_name, task, config)
    try:
        model, loading_info = model_class.from_pretrained(
            target_name,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except OSError as error:
        raise ExportError(
            f"'{target_name}' has a config.json, but transformers finds no weights: "
            f"{_first_line(error)}\nWhat to do: save_pretrained(folder) writes both; or try "
            f"{_class_name(model_class, config)} --config {target_name}, with random weights."
        ) from error
    missing = sorted(loading_info.get("missing_keys", ()))
    if missing:
        raise ExportError(
            f"{type(model).__name__} has {len(missing)} weights that are not in '{target_name}', "
            f"and would be random: {', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}. "
            "What to do: name the task that the model was trained for with --task."
        )
    return model


def _load_config(target_name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            target_name, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        if Path(target_name).is_dir():
            raise ExportError(
                f"transformers cannot read {target_name}/config.json: {_first_line(error)}"
            ) from error
        raise ExportError(
            f"'{target_name}' is not a folder, and not a downloaded model; ortable downloads "
            f"nothing. What to do: hf download {target_name}"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _find_class(target_name: str, task: str, config: Any) -> Any:
    """Find the class to load: the task's Auto class, else the class that config.json names."""
    if task:
        return _class_of_task(task, config)
    import transformers

    names = getattr(config, "architectures", None) or ()
    model_class = next(
        (getattr(transformers, name) for name in names if hasattr(transformers, name)), None
    )
    if model_class is None:
        raise OptionError(
            f"config.json of '{target_name}' names no class: give --task, for instance "
            "feature-extraction, fill-mask, text-classification or text-generation"
        )
    return model_class


def _class_name(model_class: Any, config: Any) -> str:
    selected = (
        _select_model_class(model_class, config) if is_automatic(model_class) else model_class
    )
    return str(selected.__name__)


def _select_model_class(auto_class: Any, config: Any) -> Any:
    """Return an Auto class's class for a configuration: of several, the one that it names."""
    classes = _classes_of(auto_class, type(config))
    named = [
        candidate for candidate in classes if candidate.__name__ in (config.architectures or ())
    ]
    return (named or classes)[0]


def _classes_of(auto_class: Any, config_class: type) -> Sequence[Any]:
    """Return the classes that an Auto class has for a configuration class; none if it has none."""
    classes = models_of(auto_class).get(config_class, ())
    return classes if isinstance(classes, Sequence) else (classes,)


# -- tasks


def _class_of_task(task: str, config: Any) -> Any:
    from transformers.pipelines import SUPPORTED_TASKS, TASK_ALIASES

    pipeline = SUPPORTED_TASKS.get(TASK_ALIASES.get(task, task))
    if pipeline is None:
        close = difflib.get_close_matches(task, [*SUPPORTED_TASKS, *TASK_ALIASES], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"unknown task {task!r}.{hint} All: {', '.join(sorted(SUPPORTED_TASKS))}")
    for auto_class in pipeline["pt"]:
        if type(config) in models_of(auto_class):
            return auto_class
    raise OptionError(
        f"a {config.model_type} model has no class for {task!r}. Tasks of the model: "
        f"{', '.join(_tasks_of(config)) or 'none'}"
    )


def _tasks_of(config: Any) -> list[str]:
    from transformers.pipelines import SUPPORTED_TASKS

    return sorted(
        name
        for name, pipeline in SUPPORTED_TASKS.items()
        if any(type(config) in models_of(auto_class) for auto_class in pipeline["pt"])
    )


def _task_of(model: Any) -> str:
    """Return ``text-generation`` for a causal language model, else an empty string."""
    from transformers import AutoModelForCausalLM

    is_causal = type(model) in _classes_of(AutoModelForCausalLM, type(model.config))
    return TEXT_GENERATION if is_causal and not model.config.is_encoder_decoder else ""


# -- a class, with random weights


def _make_random_model(name: str, task: str, config_words: Sequence[str]) -> Any:
    import torch
    import transformers

    model_class = getattr(transformers, name, None)
    if model_class is None:
        raise ExportError(
            f"transformers has no class {name!r}. Did you mean {_find_close_classes(name)[0]!r}?"
        )
    if (
        not issubclass(model_class, transformers.PreTrainedModel)
        or model_class.config_class is None
    ):
        raise ExportError(f"{name} is not a model class: give one, such as BertForMaskedLM")
    config = _make_config(model_class, config_words)
    if task:
        model_class = _class_of_task(task, config)
        model_class = _select_model_class(model_class, config)
    torch.manual_seed(0)
    return model_class(config)


def _make_config(cls: Any, config_words: Sequence[str]) -> Any:
    """Make the configuration from the values of --config: a folder, and ``hidden_size=64``.

    Without a folder, unnamed fields have the defaults of the class.
    """
    folders = [word for word in config_words if "=" not in word]
    config = _load_config(folders[-1]) if folders else cls.config_class()
    if not isinstance(config, cls.config_class):
        raise OptionError(
            f"--config {folders[-1]} is of a {config.model_type} model; {cls.__name__} takes a "
            f"{cls.config_class.__name__}"
        )
    fields = config.to_dict()
    for name, value in parse_pairs([word for word in config_words if "=" in word]).items():
        if name not in fields and not hasattr(config, name):
            close = difflib.get_close_matches(name, fields, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise OptionError(f"{type(config).__name__} has no field {name!r}.{hint}")
        fields[name] = value
    return type(config).from_dict(fields)


def _load_tokenizer(target_name: str) -> Any:
    """Load the tokenizer of a model; None if the model has none, or transformers cannot load it.

    A text-generation export saves the tokenizer; for other models, the names of the tensors that
    the tokenizer returns select the example inputs.
    """
    folder = Path(target_name)
    if folder.is_dir() and not list(folder.glob("tokenizer*")) + list(folder.glob("vocab*")):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            target_name, local_files_only=True, trust_remote_code=False
        )
    except Exception:  # of many types, if the tokenizer's library is missing or a file is broken
        return None


# Sizes of example inputs: batch, tokens of the encoder and of the decoder, samples of audio.
BATCH, TOKENS, DECODER, SAMPLES = 2, 8, 5, 16000
_FIRST_ID = 20  # the ids of most special tokens are smaller, in most vocabularies

ExampleInput = tuple[Any, dict[int, str]]  # a tensor, and the names of its dynamic dimensions


def example_call(
    model: Any, tokenizer_names: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the keyword arguments of a call from a fixed seed, and the names of their dimensions.

    Args:
        model: a PreTrainedModel.
        tokenizer_names: names of the tensors that the model's tokenizer returns, if any.

    Returns:
        The arguments by name, and by the same names their dynamic dimensions: ``{0: "batch"}``,
        or None for an argument that is no tensor.

    Raises:
        InputError: the model needs an input that cannot be made from its configuration.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    kwargs: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for name in _input_names(model, tokenizer_names):
        make = _INPUT_MAKERS.get(name)
        example = make(model.config, generator) if make is not None else None
        if example is None:
            raise InputError(
                f"{type(model).__name__} needs the input {name!r}, which its configuration does "
                f'not describe: give all inputs, --inputs "{name}=f32[2,8]" ...'
            )
        kwargs[name], free[name] = example
    if "use_cache" in inspect.signature(model.forward).parameters:  # a single call needs no cache
        kwargs["use_cache"], free["use_cache"] = False, None
    return kwargs, free


def _input_names(model: Any, tokenizer_names: Sequence[str]) -> Iterator[str]:
    """Yield the parameters of `forward` that an example call passes."""
    parameters = inspect.signature(model.forward).parameters
    main_input = model.main_input_name
    names = [main_input] if isinstance(main_input, str) else list(main_input)
    names += [
        name for name, parameter in parameters.items() if parameter.default is parameter.empty
    ]
    if "input_ids" in names:
        names += tokenizer_names or ["attention_mask"]
        if not tokenizer_names and getattr(model.config, "type_vocab_size", 0) > 1:
            names += ["token_type_ids"]
    if "input_ids" in parameters and "pixel_values" in parameters:  # text and images, as in CLIP
        names += ["input_ids", "pixel_values", "attention_mask"]
    if getattr(model.config, "is_encoder_decoder", False):
        names += ["decoder_input_ids"]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name in dict.fromkeys(names):
        if name in parameters and parameters[name].kind not in variadic:
            yield name


# -- each input, by its name


def _ids_maker(length: int, dimension: str, decoder: bool = False) -> Callable[..., ExampleInput]:
    def make_ids(config: Any, generator: Any) -> ExampleInput:
        import torch

        vocab_size = int(config.get_text_config(decoder=decoder).vocab_size)
        low = min(_FIRST_ID, vocab_size // 2)
        shape = (BATCH, length)
        return torch.randint(low, vocab_size, shape, generator=generator), {
            0: "batch",
            1: dimension,
        }

    return make_ids


def _constant_maker(value: int) -> Callable[..., ExampleInput]:
    def make_constant(config: Any, generator: Any) -> ExampleInput:
        import torch

        return torch.full((BATCH, TOKENS), value), {0: "batch", 1: "sequence"}

    return make_constant


def _make_boxes(config: Any, generator: Any) -> ExampleInput:
    import torch

    # (left, top, right, bottom) of each token
    corner = torch.randint(0, 100, (BATCH, TOKENS, 2), generator=generator)
    return torch.cat([corner, corner + 100], 2), {0: "batch", 1: "sequence"}


def _make_pixels(config: Any, generator: Any) -> ExampleInput | None:
    import torch

    size = _config_field(config, "image_size")
    if isinstance(size, Mapping):
        size = [size.get("height"), size.get("width")]
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    if not isinstance(height, int) or not isinstance(width, int):
        height = width = 224  # without image_size: a convolutional network, which takes any size
    channels = _config_field(config, "num_channels") or 3
    return torch.randn(BATCH, channels, height, width, generator=generator), {0: "batch"}


def _make_waveform(config: Any, generator: Any) -> ExampleInput:
    import torch

    bins, frames = _config_field(config, "num_mel_bins"), _config_field(config, "max_length")
    if isinstance(bins, int) and isinstance(frames, int):  # AST takes a spectrogram
        return torch.randn(BATCH, frames, bins, generator=generator), {0: "batch"}
    wave = torch.randn(BATCH, SAMPLES, generator=generator)
    return wave, {0: "batch", 1: "samples"}


def _make_spectrogram(config: Any, generator: Any) -> ExampleInput | None:
    import torch

    bins, positions = (
        _config_field(config, "num_mel_bins"),
        _config_field(config, "max_source_positions"),
    )
    if not isinstance(bins, int) or not isinstance(positions, int):
        return None
    # Whisper's encoder has a position for every second frame
    return torch.randn(BATCH, bins, 2 * positions, generator=generator), {0: "batch"}


def _config_field(config: Any, name: str) -> Any:
    """Return a field of a configuration, else of its vision, audio or backbone part, else None."""
    parts = [getattr(config, f"{part}_config", None) for part in ("vision", "audio", "backbone")]
    values = (getattr(part, name, None) for part in (config, *parts) if part is not None)
    return next((value for value in values if value is not None), None)


_INPUT_MAKERS: Mapping[str, Callable[..., ExampleInput | None]] = {
    "input_ids": _ids_maker(TOKENS, "sequence"),
    "decoder_input_ids": _ids_maker(DECODER, "decoder_sequence", decoder=True),
    "attention_mask": _constant_maker(1),
    "token_type_ids": _constant_maker(0),
    "bbox": _make_boxes,
    "pixel_values": _make_pixels,
    "input_values": _make_waveform,
    "input_features": _make_spectrogram,
}
