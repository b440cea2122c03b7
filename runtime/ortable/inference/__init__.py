"""Inference rules for shapes, dtypes and known contents.

Rules are pure functions of shapes (tuples of dims; None is unknown), element types and known
contents; they build no graph. They read `ValueInfo`. specs/onnx names these functions, and the
generated ONNX and ATen rules call them.
"""

from .dtype import *  # noqa: F403
from .flow import *  # noqa: F403
from .linalg import *  # noqa: F403
from .shape import *  # noqa: F403
from .spatial import *  # noqa: F403
from .values import *  # noqa: F403
from .view import *  # noqa: F403
