"""The words of shape, dtype and value rules; the generated rules of ONNX and ATen operators call
them as ``inference.word(...)``. Pure functions on shapes (tuples of dims, None = unknown), element
types and known contents; nothing here builds a graph. `ValueInfo` is what a rule reads."""

from .dtype import *  # noqa: F403
from .flow import *  # noqa: F403
from .linalg import *  # noqa: F403
from .shape import *  # noqa: F403
from .spatial import *  # noqa: F403
from .values import *  # noqa: F403
from .view import *  # noqa: F403
