"""Rules for shapes, dtypes and known contents, called by the generated ONNX and ATen rules.

Rules are pure functions on shapes (tuples of dims, None = unknown), element types and known
contents; nothing here builds a graph. Rules read `ValueInfo`. specs/onnx names these functions.
"""

from .dtype import *  # noqa: F403
from .flow import *  # noqa: F403
from .linalg import *  # noqa: F403
from .shape import *  # noqa: F403
from .spatial import *  # noqa: F403
from .values import *  # noqa: F403
from .view import *  # noqa: F403
