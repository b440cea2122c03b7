"""Export a model of timm or torchvision and compare it with eager.

test_exported_models.py runs ``python -m tests.sweeps.vision_models NAME``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

import ortable

from ..exporter.helpers import assert_same
from . import torchvision_kernels


def volo() -> tuple[torch.nn.Module, list[Any], Any]:
    from timm.models.volo import VOLO

    module = VOLO(
        layers=(1, 1, 1, 1), img_size=64, embed_dims=(24, 48, 48, 48), num_heads=(2, 4, 4, 4),
        stem_hidden_dim=8, num_classes=5,
    )  # fmt: skip
    return module, [(torch.rand(rows, 3, 64, 64),) for rows in (2, 3)], {"x": {0: "batch"}}


def _make_backbone(width: int) -> Any:
    layers: Any = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=4, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, width, 3, stride=4, padding=1),
    )
    layers.out_channels = width
    return layers


def _make_images() -> list[Any]:
    """Make two random images, and a NaN image, which has no detections."""
    nan_image = torch.full((3, 40, 48), float("nan"))
    return [([torch.rand(3, 40, 48)],), ([torch.rand(3, 40, 48)],), ([nan_image],)]


def faster_rcnn() -> tuple[torch.nn.Module, list[Any], Any]:
    from torchvision.models.detection import FasterRCNN, faster_rcnn
    from torchvision.models.detection.rpn import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    module = FasterRCNN(
        _make_backbone(8), min_size=64, max_size=96,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2), rpn_pre_nms_top_n_test=40,
        rpn_post_nms_top_n_test=15, box_detections_per_img=10,
        box_head=faster_rcnn.TwoMLPHead(8 * 9, 16),
        box_predictor=faster_rcnn.FastRCNNPredictor(16, 4),
    )  # fmt: skip
    return module, _make_images(), None


def retinanet() -> tuple[torch.nn.Module, list[Any], Any]:
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection import retinanet as parts
    from torchvision.models.detection.rpn import AnchorGenerator

    module = RetinaNet(
        _make_backbone(8), 4, min_size=64, max_size=96, detections_per_img=10, topk_candidates=20,
        anchor_generator=AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),)),
        head=parts.RetinaNetHead(8, 6, 4),
    )  # fmt: skip
    for weight in module.parameters():  # distinct scores
        torch.nn.init.normal_(weight, std=0.08)
    return module, _make_images(), None


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, list[Any], Any]]] = {
    "volo": volo,
    "faster_rcnn": faster_rcnn,
    "retinanet": retinanet,
}


def main(name: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torchvision_kernels.provide()
    module, calls, shapes = MODELS[name]()
    module = module.eval()
    if shapes is None:
        with ortable.bypass_export_some_errors():
            model = ortable.to_onnx(module, calls[0])
        assert any(node.op_type == "NonMaxSuppression" for node in model.graph.node)
    else:
        model = ortable.to_onnx(module, calls[0], dynamic_shapes=shapes)
    sizes = [len(assert_same(model, module, args)[0]) for args in calls]
    # detectors find objects in the first image and none in the last
    assert sizes[0] and (shapes is not None or not sizes[-1]), sizes
    print(f"{name}: equal, {sizes} rows")


if __name__ == "__main__":
    main(sys.argv[1])
