"""Models of transformers, named on a command line by their folder, by the name under which the hub
knows them, or by their class. Nothing is downloaded. In come words, out goes a Target with a call
made from the configuration; called by `target`."""

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

from .arguments import pairs
from .model_call import Target, made_inputs

TEXT_GENERATION = "text-generation"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_OTHER_FILES = (".onnx", ".pt2", ".py")


def names_transformers(words: str) -> bool:
    """Whether ``words`` name a folder with a configuration, a model of the hub, or a class."""
    if (Path(words) / "config.json").is_file():
        return True
    if ":" in words or words.endswith(_OTHER_FILES) or Path(words).exists():
        return False
    if _HUB_NAME.fullmatch(words):
        return True
    if not words.isidentifier() or importlib.util.find_spec("transformers") is None:
        return False
    return _meant(words)


def _meant(name: str) -> bool:
    """Whether a word is a class of models, or nearly one."""
    import transformers

    if isinstance(getattr(transformers, name, None), type):
        return True
    return name[:1].isupper() and bool(_close(name))


def _close(name: str) -> list[str]:
    import transformers

    models = [each for each in dir(transformers) if "For" in each or each.endswith("Model")]
    return difflib.get_close_matches(name, models, n=1)


def from_transformers(
    words: str, task: str, config: Sequence[str], inputs: Sequence[str]
) -> Target:
    """The model in eval mode, its task, its tokenizer, and a call.

    Raises:
        ExportError: there is no such model here, or it has no weights.
        OptionError: the task is unknown or not one of the model's, or a field of the configuration.
        InputError: what the model is called with is not known.
    """
    if importlib.util.find_spec("transformers") is None:
        raise ExportError(f"{words} is a model of transformers: pip install transformers")
    with _quiet():
        folder = _HUB_NAME.fullmatch(words) or Path(words).is_dir()
        model = _of_folder(words, task, config) if folder else _of_class(words, task, config)
        tokenizer = _tokenizer(words) if folder else None
    model.eval()
    found = task or _task_of(model)
    if inputs:
        return replace(made_inputs(inputs), model=model, task=found, tokenizer=tokenizer)
    if found == TEXT_GENERATION:
        tokenizer_names: Sequence[str] = ()
    else:
        tokenizer_names = getattr(tokenizer, "model_input_names", ())
    kwargs, free = example_call(model, tokenizer_names)
    return Target(model, (), kwargs, None, free, found, tokenizer)


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers tells what it loads, with bars of its own; what matters is said here."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


# -- a folder, or a model of the hub that was downloaded before


def _of_folder(words: str, task: str, changes: Sequence[str]) -> Any:
    if changes:
        raise OptionError(
            "--config is for a class, whose weights are random; this one has its own configuration"
        )
    config = _config(words)
    kind = _kind(words, task, config)
    try:
        model, told = kind.from_pretrained(
            words,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except OSError as error:
        raise ExportError(
            f"'{words}' has a config.json, and no weights that transformers finds: "
            f"{_first(error)}\nWhat to do: save_pretrained(folder) writes both; or try "
            f"{_class_name(kind, config)} --config {words}, with random weights."
        ) from error
    missing = sorted(told.get("missing_keys", ()))
    if missing:
        raise ExportError(
            f"{type(model).__name__} has {len(missing)} weights that are not in '{words}', and "
            f"would be random: {', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}. "
            "What to do: name the task that the model was trained for with --task."
        )
    return model


def _config(words: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(words, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        if Path(words).is_dir():
            raise ExportError(
                f"transformers does not read {words}/config.json: {_first(error)}"
            ) from error
        raise ExportError(
            f"'{words}' is no folder, and no model that was downloaded before; the shell downloads "
            f"nothing. What to do: hf download {words}"
        ) from error


def _first(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _kind(words: str, task: str, config: Any) -> Any:
    """The class to load, by the task or as config.json has it."""
    if task:
        return _kind_of_task(task, config)
    import transformers

    names = getattr(config, "architectures", None) or ()
    found = next((getattr(transformers, n) for n in names if hasattr(transformers, n)), None)
    if found is None:
        raise OptionError(
            f"config.json of '{words}' names no class: give --task, for instance "
            "feature-extraction, fill-mask, text-classification or text-generation"
        )
    return found


def _class_name(kind: Any, config: Any) -> str:
    name: str = (models_of(kind)[type(config)] if is_automatic(kind) else kind).__name__
    return name


# -- tasks


def _kind_of_task(task: str, config: Any) -> Any:
    from transformers.pipelines import SUPPORTED_TASKS, TASK_ALIASES

    known = SUPPORTED_TASKS.get(TASK_ALIASES.get(task, task))
    if known is None:
        close = difflib.get_close_matches(task, [*SUPPORTED_TASKS, *TASK_ALIASES], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"unknown task {task!r}.{hint} All: {', '.join(sorted(SUPPORTED_TASKS))}")
    for kind in known["pt"]:
        if type(config) in models_of(kind):
            return kind
    raise OptionError(
        f"a {config.model_type} model has no class for {task!r}. Those it has: "
        f"{', '.join(_tasks_of(config)) or 'none'}"
    )


def _tasks_of(config: Any) -> list[str]:
    from transformers.pipelines import SUPPORTED_TASKS

    return sorted(
        name
        for name, known in SUPPORTED_TASKS.items()
        if any(type(config) in models_of(kind) for kind in known["pt"])
    )


def _task_of(model: Any) -> str:
    """``text-generation`` of a causal language model, which is exported with its cache."""
    from transformers import AutoModelForCausalLM

    mapping = models_of(AutoModelForCausalLM)
    kind = type(model.config)
    if kind not in mapping or model.config.is_encoder_decoder:
        return ""
    found = mapping[kind]
    kinds = found if isinstance(found, tuple) else (found,)
    return TEXT_GENERATION if type(model) in kinds else ""


# -- a class, with random weights


def _of_class(name: str, task: str, changes: Sequence[str]) -> Any:
    import torch
    import transformers

    kind = getattr(transformers, name, None)
    if kind is None:
        raise ExportError(f"transformers has no class {name!r}. Did you mean {_close(name)[0]!r}?")
    if not issubclass(kind, transformers.PreTrainedModel) or kind.config_class is None:
        raise ExportError(f"{name} is no class of models: give its own name, BertForMaskedLM")
    config = _changed(kind, changes)
    if task:
        kind = _kind_of_task(task, config)
        kind = models_of(kind)[type(config)]
    torch.manual_seed(0)
    return kind(config)


def _changed(kind: Any, changes: Sequence[str]) -> Any:
    """The configuration of a class, of a folder where one is named, with fields replaced."""
    folders = [each for each in changes if "=" not in each]
    config = _config(folders[-1]) if folders else kind.config_class()
    if not isinstance(config, kind.config_class):
        raise OptionError(
            f"--config {folders[-1]} is of a {config.model_type} model; {kind.__name__} takes a "
            f"{kind.config_class.__name__}"
        )
    fields = config.to_dict()
    for name, value in pairs([each for each in changes if "=" in each]).items():
        if name not in fields and not hasattr(config, name):
            close = difflib.get_close_matches(name, fields, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise OptionError(f"{type(config).__name__} has no field {name!r}.{hint}")
        fields[name] = value
    return type(config).from_dict(fields)


def _tokenizer(words: str) -> Any:
    """The tokenizer beside the weights; None where there is none, or transformers cannot read it:
    only its files are copied, and the names of what it returns are read."""
    folder = Path(words)
    if folder.is_dir() and not list(folder.glob("tokenizer*")) + list(folder.glob("vocab*")):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(words, local_files_only=True, trust_remote_code=False)
    except Exception:  # a library of its own is missing, or a file is broken: many types
        return None


BATCH, TOKENS, DECODER, SAMPLES = 2, 8, 5, 16000
_FIRST_ID = 20  # tokens below mean something, in most vocabularies

Made = tuple[Any, dict[int, str]]


def example_call(
    model: Any, tokenizer_names: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of a call, the same each time, and names of their free dimensions.

    Args:
        model: a PreTrainedModel.
        tokenizer_names: what its tokenizer returns, where there is one.

    Raises InputError where forward needs what nothing is known of.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    kwargs: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for name in _wanted(model, tokenizer_names):
        make = _KNOWN.get(name)
        made = make(model.config, generator) if make is not None else None
        if made is None:
            raise InputError(
                f"{type(model).__name__} is called with {name!r}, which its configuration does not "
                f'describe: give all inputs, --inputs "{name}=f32[2,8]" ...'
            )
        kwargs[name], free[name] = made
    if "use_cache" in inspect.signature(model.forward).parameters:  # one call, not a step of many
        kwargs["use_cache"], free["use_cache"] = False, None
    return kwargs, free


def _wanted(model: Any, tokenizer_names: Sequence[str]) -> Iterator[str]:
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    names = [main] if isinstance(main, str) else list(main)
    names += [name for name, each in parameters.items() if each.default is each.empty]
    if "input_ids" in names:
        names += tokenizer_names or ["attention_mask"]
        if not tokenizer_names and getattr(model.config, "type_vocab_size", 0) > 1:
            names += ["token_type_ids"]
    if "input_ids" in parameters and "pixel_values" in parameters:  # texts and pictures: CLIP
        names += ["input_ids", "pixel_values", "attention_mask"]
    if getattr(model.config, "is_encoder_decoder", False):
        names += ["decoder_input_ids"]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name in dict.fromkeys(names):
        if name in parameters and parameters[name].kind not in variadic:
            yield name


# -- each input, by its name


def _ids(length: int, dimension: str, decoder: bool = False) -> Callable[..., Made]:
    def made(config: Any, generator: Any) -> Made:
        import torch

        most = int(config.get_text_config(decoder=decoder).vocab_size)
        low = min(_FIRST_ID, most // 2)
        shape = (BATCH, length)
        return torch.randint(low, most, shape, generator=generator), {0: "batch", 1: dimension}

    return made


def _filled(value: int) -> Callable[..., Made]:
    def made(config: Any, generator: Any) -> Made:
        import torch

        return torch.full((BATCH, TOKENS), value), {0: "batch", 1: "sequence"}

    return made


def _boxes(config: Any, generator: Any) -> Made:
    import torch

    corner = torch.randint(0, 100, (BATCH, TOKENS, 2), generator=generator)
    return torch.cat([corner, corner + 100], 2), {0: "batch", 1: "sequence"}


def _pixels(config: Any, generator: Any) -> Made | None:
    import torch

    size = _field(config, "image_size")
    if isinstance(size, Mapping):
        size = [size.get("height"), size.get("width")]
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    if not isinstance(height, int) or not isinstance(width, int):
        height = width = 224  # a convolutional network: any size will do
    channels = _field(config, "num_channels") or 3
    return torch.randn(BATCH, channels, height, width, generator=generator), {0: "batch"}


def _waves(config: Any, generator: Any) -> Made:
    import torch

    bins, frames = _field(config, "num_mel_bins"), _field(config, "max_length")
    if isinstance(bins, int) and isinstance(frames, int):  # a spectrogram, as AST takes it
        return torch.randn(BATCH, frames, bins, generator=generator), {0: "batch"}
    wave = torch.randn(BATCH, SAMPLES, generator=generator)
    return wave, {0: "batch", 1: "samples"}


def _spectra(config: Any, generator: Any) -> Made | None:
    import torch

    bins, places = _field(config, "num_mel_bins"), _field(config, "max_source_positions")
    if not isinstance(bins, int) or not isinstance(places, int):
        return None
    return torch.randn(BATCH, bins, 2 * places, generator=generator), {0: "batch"}


def _field(config: Any, name: str) -> Any:
    """A field of a configuration, or of its part for pictures or sounds."""
    parts = [getattr(config, f"{part}_config", None) for part in ("vision", "audio", "backbone")]
    found = (getattr(each, name, None) for each in (config, *parts) if each is not None)
    return next((each for each in found if each is not None), None)


_KNOWN: Mapping[str, Callable[..., Made | None]] = {
    "input_ids": _ids(TOKENS, "sequence"),
    "decoder_input_ids": _ids(DECODER, "decoder_sequence", decoder=True),
    "attention_mask": _filled(1),
    "token_type_ids": _filled(0),
    "bbox": _boxes,
    "pixel_values": _pixels,
    "input_values": _waves,
    "input_features": _spectra,
}
