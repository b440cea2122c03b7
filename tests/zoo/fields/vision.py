"""Images and volumes: features, geometry, filters, segmentation, perceivers and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.zoo.modules import Pipeline
from tests.zoo.program import Program


def _image_pipeline(function: Callable[..., Any], channels: int = 3) -> Pipeline:
    """Return a function after a convolution whose results lie between 0 and 1."""
    layer = torch.nn.Sequential(torch.nn.Conv2d(channels, channels, 1), torch.nn.Sigmoid())
    return Pipeline(layer, function)


def _make_images(channels: int = 3, size: int = 32, count: int = 1) -> Callable[[int], Any]:
    return lambda n: tuple(torch.rand(n, channels, size, size) for _ in range(count))


# -- kornia


def kornia__hardnet() -> Program:
    from kornia.feature import HardNet

    return Program(HardNet(pretrained=False), _make_images(1))


def kornia__sift() -> Program:
    from kornia.feature import SIFTDescriptor

    return Program(_image_pipeline(SIFTDescriptor(32), 1), _make_images(1))


def kornia__disk() -> Program:
    from kornia.feature import DISK
    from kornia.feature.disk._unets import Unet

    class Detector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.disk = DISK(desc_dim=8, unet=Unet(3, size=3, down=[4, 8], up=[9]))

        def forward(self, images: torch.Tensor) -> Any:
            features = self.disk(images, n=6)
            return [(f.keypoints, f.descriptors, f.detection_scores) for f in features]

    return Program(Detector(), _make_images(3, 32))


def kornia__loftr() -> Program:
    from kornia.feature import LoFTR
    from kornia.feature.loftr.loftr import default_cfg

    layers = {"layer_names": ["self", "cross"], "nhead": 2}
    config = {
        **default_cfg,
        "resnetfpn": {"initial_dim": 16, "block_dims": [16, 24, 32]},
        "coarse": {**default_cfg["coarse"], **layers, "d_model": 32, "d_ffn": 32},
        "match_coarse": {**default_cfg["match_coarse"], "thr": 0.0, "border_rm": 0},
        "fine": {**default_cfg["fine"], **layers, "d_model": 16, "d_ffn": 16},
    }

    def make(n: int) -> tuple[dict[str, torch.Tensor]]:
        return ({"image0": torch.rand(n, 1, 32, 32), "image1": torch.rand(n, 1, 32, 32)},)

    return Program(LoFTR(pretrained=None, config=config), make, modes=("compile", "export"))


def kornia__lightglue() -> Program:
    from kornia.feature import LightGlue

    model = LightGlue(
        None, input_dim=16, descriptor_dim=16, n_layers=2, num_heads=2, depth_confidence=-1,
        width_confidence=-1, filter_threshold=0.0,
    )  # fmt: skip

    def make_side(n: int, count: int) -> dict[str, torch.Tensor]:
        points = torch.rand(n, count, 2) * 32
        size = torch.full((n, 2), 32)
        return {"keypoints": points, "descriptors": torch.randn(n, count, 16), "image_size": size}

    def make(n: int) -> tuple[Any]:
        return ({"image0": make_side(n, 7), "image1": make_side(n, 9)},)

    return Program(model, make, loss=lambda result: result["log_assignment"].square().mean())


def kornia__homography() -> Program:
    from kornia.geometry import find_homography_dlt, warp_perspective

    def warp(image: torch.Tensor, corners: torch.Tensor, moved: torch.Tensor) -> Any:
        homography = find_homography_dlt(corners, moved, torch.ones_like(moved[..., 0]))
        return homography, warp_perspective(image, homography, (24, 20), padding_mode="border")

    def make(n: int) -> tuple[torch.Tensor, ...]:
        corners = torch.tensor([[0.0, 0.0], [31.0, 0.0], [31.0, 31.0], [0.0, 31.0], [15.0, 9.0]])
        corners = corners.expand(n, -1, -1)
        return torch.rand(n, 3, 32, 32), corners, corners + torch.rand(n, 5, 2) * 3

    return Program(_image_pipeline(warp), make)


def kornia__thin_plate_spline() -> Program:
    from kornia.geometry.transform import get_tps_transform, warp_image_tps

    def warp(image: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        kernel, affine = get_tps_transform(target, source)
        return warp_image_tps(image, source, kernel, affine)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        points = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [0.0, 0.1]])
        points = points.expand(n, -1, -1)
        return torch.rand(n, 3, 16, 16), points, points + torch.rand(n, 5, 2) * 0.2

    return Program(_image_pipeline(warp), make)


def kornia__canny() -> Program:
    from kornia.filters import Canny

    return Program(_image_pipeline(Canny(0.02, 0.05)), _make_images(3, 16))


def kornia__edge_preserving_filters() -> Program:
    from kornia.filters import bilateral_blur, guided_blur, median_blur, motion_blur, unsharp_mask

    def blur(image: torch.Tensor, angle: torch.Tensor) -> tuple[torch.Tensor, ...]:
        direction = torch.zeros_like(angle)
        return (
            bilateral_blur(image, (3, 3), 0.1, (1.5, 1.5)),
            guided_blur(image, image.square(), (5, 5), 0.1),
            median_blur(image, (3, 3)),
            motion_blur(image, 5, angle, direction),
            unsharp_mask(image, (3, 3), (1.5, 1.5)),
        )

    return Program(_image_pipeline(blur), lambda n: (torch.rand(n, 3, 16, 16), torch.rand(n) * 90))


def kornia__equalization() -> Program:
    from kornia.enhance import equalize, equalize_clahe, posterize, solarize

    def equalize_image(image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        clahe = equalize_clahe(image, grid_size=(2, 2), slow_and_differentiable=True)
        return clahe, equalize(image), posterize(image, 3), solarize(image, 0.4)

    return Program(
        _image_pipeline(equalize_image), _make_images(3, 16), modes=("compile", "export")
    )


def kornia__jpeg() -> Program:
    from kornia.enhance import JPEGCodecDifferentiable

    model = _image_pipeline(JPEGCodecDifferentiable())
    return Program(model, lambda n: (torch.rand(n, 3, 32, 32), torch.rand(n) * 80 + 10))


def kornia__morphology() -> Program:
    from kornia.morphology import closing, gradient, top_hat

    class Morphology(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = torch.nn.Parameter(torch.rand(3, 3))

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            ones = torch.ones_like(self.kernel)
            element = self.kernel
            return (
                closing(image, ones, structuring_element=element),
                gradient(image, ones, structuring_element=element, engine="convolution"),
                top_hat(image, ones, structuring_element=element),
            )

    return Program(Morphology(), _make_images(3, 16))


def kornia__colors() -> Program:
    from kornia import color

    def convert(image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hsv = color.rgb_to_hsv(image)
        lab = color.rgb_to_lab(image)
        raw = color.rgb_to_raw(image, color.CFA.BG)
        return (
            hsv, color.hsv_to_rgb(hsv), lab, color.lab_to_rgb(lab), color.rgb_to_luv(image),
            color.rgb_to_hls(image), color.rgb_to_yuv420(image), color.apply_colormap(
                (image[:, :1] * 255).long(), color.ColorMap("jet", 64)),
            color.raw_to_rgb(raw, color.CFA.BG),
        )  # fmt: skip

    return Program(_image_pipeline(convert), _make_images(3, 16))


def kornia__losses() -> Program:
    from kornia import losses

    def measure(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hot = torch.nn.functional.one_hot(target, 3).movedim(-1, 1).float()
        criteria = [
            losses.FocalLoss(0.5, 2.0, "mean", ignore_index=2), losses.DiceLoss(),
            losses.TverskyLoss(0.4, 0.6), losses.LovaszSoftmaxLoss(),
        ]  # fmt: skip
        by_labels = [criterion(scores * 4, target) for criterion in criteria]
        by_images = [
            losses.SSIMLoss(5)(scores, hot), losses.MS_SSIMLoss((0.5, 1.0))(scores, hot),
            losses.TotalVariation()(scores).mean(), losses.PSNRLoss(1.0)(scores, hot),
            losses.CharbonnierLoss("mean")(scores, hot),
            losses.js_div_loss_2d(scores.softmax(1), hot.softmax(1)),
        ]  # fmt: skip
        return torch.stack(by_labels + by_images)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(n, 3, 16, 16), torch.randint(0, 3, (n, 16, 16))

    return Program(_image_pipeline(measure), make)


def kornia__hausdorff_loss() -> Program:
    from kornia.losses import HausdorffERLoss

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(n, 3, 12, 12), torch.randint(0, 3, (n, 1, 12, 12))

    return Program(_image_pipeline(HausdorffERLoss(k=3)), make)


def kornia__distance_and_components() -> Program:
    from kornia.contrib import connected_components, distance_transform

    def label(image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = (image > 0.5).float()
        return distance_transform(mask), connected_components(mask, num_iterations=6)

    model = Pipeline(torch.nn.Identity(), label)
    return Program(model, _make_images(1, 12), modes=("compile", "export"))


def kornia__camera() -> Program:
    from kornia.geometry import depth, epipolar, undistort_image
    from kornia.geometry.calibration import solve_pnp_dlt

    def look(image: torch.Tensor, camera: torch.Tensor, world: torch.Tensor) -> Any:
        lens = torch.tensor([[0.02, -0.01, 0.001, 0.002]]).expand(len(image), -1)
        points = depth.depth_to_3d(image.mean(1, keepdim=True) + 1, camera)
        seen = world @ camera.mT
        pose = solve_pnp_dlt(world, seen[..., :2] / seen[..., 2:], camera)
        fundamental = epipolar.find_fundamental(world[..., :2], world[..., 1:])
        return undistort_image(image, camera, lens), points, pose.abs(), fundamental.shape[0]

    def make(n: int) -> tuple[torch.Tensor, ...]:
        camera = torch.tensor([[10.0, 0.0, 8.0], [0.0, 10.0, 8.0], [0.0, 0.0, 1.0]])
        world = torch.rand(n, 8, 3) + torch.tensor([0.0, 0.0, 1.0])
        return torch.rand(n, 3, 16, 16), camera.expand(n, -1, -1), world

    return Program(_image_pipeline(look), make)


def kornia__lie_groups() -> Program:
    from kornia.geometry.liegroup import Se3, So3
    from kornia.geometry.quaternion import Quaternion

    def move(vector: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rotation, motion = So3.exp(vector[:, :3]), Se3.exp(vector)
        unit = Quaternion(torch.nn.functional.normalize(vector[:, :4], dim=-1))
        return (
            rotation.matrix(), rotation.log(), motion.matrix(), motion.log(),
            (motion * motion.inverse()).matrix(), unit.slerp(rotation.q, 0.3).data,
        )  # fmt: skip

    return Program(Pipeline(torch.nn.Linear(6, 6), move), lambda n: (torch.randn(n, 6),))


def kornia__boxes_and_metrics() -> Program:
    from kornia.geometry.bbox import nms
    from kornia.metrics import confusion_matrix, mean_iou, mean_iou_bbox

    def measure(boxes: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> Any:
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.1], 1)
        flat = labels[0].flatten(), labels[1].flatten()
        return (
            nms(boxes, scores, 0.3), mean_iou_bbox(boxes, boxes.flip(0)),
            confusion_matrix(flat[0], flat[1], 4), mean_iou(labels[0], labels[1], 4),
        )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        labels = torch.randint(0, 4, (2, 2, 5, 5))
        return torch.rand(4 * n, 4), torch.rand(4 * n), labels

    model = Pipeline(torch.nn.Identity(), measure)
    return Program(model, make, modes=("compile", "export"))


def kornia__keynet() -> Program:
    from kornia.feature import KeyNet

    return Program(KeyNet(pretrained=False), _make_images(1, 32))


def kornia__scale_space_detector() -> Program:
    from kornia.feature import BlobHessian, LAFOrienter, ScaleSpaceDetector
    from kornia.geometry import ConvQuadInterp3d, ScalePyramid

    detector = ScaleSpaceDetector(
        6, resp_module=BlobHessian(), subpix_module=ConvQuadInterp3d(10),
        scale_pyr_module=ScalePyramid(3, 1.6, 15), ori_module=LAFOrienter(9),
    )  # fmt: skip
    return Program(detector, _make_images(1, 32), modes=("compile", "export"))


def kornia__tiny_vit() -> Program:
    from kornia.models.tiny_vit import TinyViT

    model = TinyViT(
        img_size=32, num_classes=5, embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1),
        num_heads=(1, 2, 2, 2), window_sizes=(2, 2, 2, 1),
    )  # fmt: skip
    return Program(model, _make_images())


def kornia__rt_detr() -> Program:
    from kornia.models.rt_detr import RTDETR, RTDETRConfig

    config = RTDETRConfig(
        "resnet18d", 5, neck_hidden_dim=32, neck_dim_feedforward=32, head_hidden_dim=32,
        head_num_queries=6, head_num_decoder_layers=1,
    )  # fmt: skip
    return Program(RTDETR.from_config(config), _make_images(3, 64))


# -- MONAI


def monai__unet_of_volumes() -> Program:
    from monai.networks.nets import UNet

    model = UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
    return Program(model, lambda n: (torch.randn(n, 1, 8, 8, 8),))


def monai__swin_unetr() -> Program:
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(
        1, 2, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2), feature_size=12, window_size=4,
        spatial_dims=2,
    )  # fmt: skip
    return Program(model, _make_images(1, 64))


def monai__dynunet() -> Program:
    from monai.networks.nets import DynUNet

    model = DynUNet(
        2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=(4, 8, 8), deep_supervision=True,
        res_block=True,
    )  # fmt: skip
    return Program(model, _make_images(1, 16))


def monai__mednext() -> Program:
    from monai.networks.nets import MedNeXt

    model = MedNeXt(
        2, 4, 1, 2, kernel_size=3, blocks_down=(1, 1), blocks_up=(1, 1), blocks_bottleneck=1,
        deep_supervision=True, global_resp_norm=True, use_residual_connection=True,
    )  # fmt: skip
    return Program(model, _make_images(1, 16))


def monai__diffusion_unet() -> Program:
    from monai.networks.nets import DiffusionModelUNet

    model = DiffusionModelUNet(
        2, 1, 1, num_res_blocks=1, channels=(8, 16), attention_levels=(False, True),
        norm_num_groups=4, num_head_channels=8, with_conditioning=True, cross_attention_dim=8,
        num_class_embeds=3,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        steps, labels = torch.randint(0, 1000, (n,)), torch.randint(0, 3, (n,))
        return torch.randn(n, 1, 16, 16), steps, torch.randn(n, 3, 8), labels

    return Program(model, make)


def monai__diffusion_sampling() -> Program:
    from monai.networks.nets import DiffusionModelUNet
    from monai.networks.schedulers import DDIMScheduler

    unet = DiffusionModelUNet(
        2, 1, 1, num_res_blocks=1, channels=(8, 8), attention_levels=(False, False),
        norm_num_groups=4,
    )  # fmt: skip

    class Sampler(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unet, self.scheduler = unet, DDIMScheduler(1000, schedule="scaled_linear_beta")
            self.scheduler.set_timesteps(3)

        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            for step in self.scheduler.timesteps:
                noise = self.unet(sample, step.expand(len(sample)))
                sample, _ = self.scheduler.step(noise, int(step), sample)
            return sample

    return Program(Sampler(), _make_images(1, 8))


def monai__vqvae() -> Program:
    from monai.networks.nets import VQVAE

    model = VQVAE(
        2, 1, 1, channels=(8, 8), num_res_layers=1, num_res_channels=(8, 8),
        downsample_parameters=((2, 4, 1, 1),) * 2, upsample_parameters=((2, 4, 1, 1, 0),) * 2,
        num_embeddings=8, embedding_dim=4,
    )  # fmt: skip
    return Program(model, _make_images(1, 16))


def monai__registration() -> Program:
    from monai.networks.blocks import Warp
    from monai.networks.nets import GlobalNet, LocalNet

    class Registration(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.affine = GlobalNet([16, 16], 2, 2, 4, 2)
            self.local = LocalNet(2, 2, 4, (0, 1), out_channels=2, pooling=True)
            self.warp = Warp()

        def forward(self, moving: torch.Tensor, fixed: torch.Tensor) -> tuple[torch.Tensor, ...]:
            moved = self.warp(moving, self.affine(torch.cat([moving, fixed], 1)))
            field = self.local(torch.cat([moved, fixed], 1))
            return moved, field, self.warp(moved, field)

    return Program(Registration(), _make_images(1, 16, 2))


def monai__segmentation_losses() -> Program:
    from monai import losses

    def measure(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        options = {"to_onehot_y": True, "softmax": True}
        criteria = [
            losses.DiceCELoss(**options), losses.GeneralizedDiceLoss(**options),
            losses.TverskyLoss(**options), losses.SoftclDiceLoss(**options),
            losses.FocalLoss(to_onehot_y=True, use_softmax=True),
        ]  # fmt: skip
        return torch.stack([criterion(scores * 4, target) for criterion in criteria])

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(n, 3, 16, 16), torch.randint(0, 3, (n, 1, 16, 16))

    return Program(_image_pipeline(measure), make)


def monai__registration_losses() -> Program:
    from monai import losses

    def measure(image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.stack([
            losses.LocalNormalizedCrossCorrelationLoss(2, 3)(image, target),
            losses.GlobalMutualInformationLoss(num_bins=8)(image, target),
            losses.BendingEnergyLoss()(image.repeat(1, 2, 1, 1)),
            losses.SSIMLoss(2, win_size=5)(image, target),
            losses.JukeboxLoss(2)(image, target),
        ])  # fmt: skip

    return Program(_image_pipeline(measure, 1), _make_images(1, 16, 2))


def monai__filters() -> Program:
    from monai.networks.layers import GaussianFilter, HilbertTransform, SavitzkyGolayFilter

    def smooth(signal: torch.Tensor) -> tuple[torch.Tensor, ...]:
        analytic = HilbertTransform(axis=2)(signal)
        return (
            SavitzkyGolayFilter(5, 2, axis=2)(signal), analytic.abs(), analytic.angle(),
            GaussianFilter(1, 1.5, approx="scalespace")(signal),
        )  # fmt: skip

    return Program(Pipeline(torch.nn.Conv1d(2, 2, 1), smooth), lambda n: (torch.randn(n, 2, 24),))


def monai__sliding_window() -> Program:
    from monai.inferers import SlidingWindowInferer
    from monai.networks.nets import BasicUNet

    class Inference(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = BasicUNet(2, 1, 2, (4, 4, 8, 8, 8, 4), norm="batch")
            self.inferer = SlidingWindowInferer((16, 16), 2, overlap=0.5, mode="gaussian")

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.inferer(image, self.network)

    return Program(Inference(), _make_images(1, 24))


# -- smaller libraries


def pytorch_msssim__similarity() -> Program:
    from pytorch_msssim import MS_SSIM, SSIM

    def measure(image: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scales = MS_SSIM(1.0, win_size=3, weights=[0.3, 0.3, 0.4])(image, target)
        return SSIM(1.0, False, nonnegative_ssim=True)(image, target), scales

    return Program(_image_pipeline(measure), _make_images(3, 36, 2))


def perceiver_pytorch__perceiver() -> Program:
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        num_freq_bands=3, depth=2, max_freq=4.0, num_latents=6, latent_dim=16, latent_heads=2,
        cross_dim_head=8, latent_dim_head=8, num_classes=5, weight_tie_layers=True,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 8, 8, 3), torch.rand(n, 8, 8) > 0.3))


def perceiver_pytorch__perceiver_io() -> Program:
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        depth=1, dim=8, queries_dim=8, logits_dim=4, num_latents=6, latent_dim=16, latent_heads=2,
        cross_dim_head=8, latent_dim_head=8, decoder_ff=True,
    )  # fmt: skip

    class Queries(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, data: torch.Tensor, mask: torch.Tensor, queries: torch.Tensor) -> Any:
            return self.model(data, mask=mask, queries=queries)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 10, 8), torch.rand(n, 10) > 0.3, torch.randn(3, 8)

    return Program(Queries(), make)


def mlp_mixer_pytorch__mixer() -> Program:
    from mlp_mixer_pytorch import MLPMixer

    model = MLPMixer(image_size=16, channels=3, patch_size=4, dim=16, depth=2, num_classes=5)
    return Program(model, _make_images(3, 16))


def g_mlp_pytorch__vision() -> Program:
    from g_mlp_pytorch import gMLPVision

    model = gMLPVision(image_size=16, patch_size=4, num_classes=5, dim=16, depth=2, attn_dim=8)
    return Program(model, _make_images(3, 16))


def axial_attention__image_transformer() -> Program:
    from axial_attention import AxialImageTransformer

    model = AxialImageTransformer(8, 2, heads=2, reversible=False, axial_pos_emb_shape=(6, 6))
    return Program(model, _make_images(8, 6))


def axial_attention__reversible() -> Program:
    from axial_attention import AxialImageTransformer

    # the gradients of reversible blocks need an input that has one
    model = Pipeline(torch.nn.Conv2d(8, 8, 1), AxialImageTransformer(8, 2, heads=2))
    return Program(model, _make_images(8, 6))


def lambda_networks__local_layer() -> Program:
    from lambda_networks import LambdaLayer

    return Program(LambdaLayer(8, dim_k=4, r=3, heads=2, dim_u=2), _make_images(8, 6))


def lambda_networks__global_layer() -> Program:
    from lambda_networks import LambdaLayer

    return Program(LambdaLayer(8, dim_k=4, n=6, heads=2), _make_images(8, 6))


def glom_pytorch__glom() -> Program:
    from glom_pytorch import Glom

    model = Glom(dim=8, levels=3, image_size=16, patch_size=4, local_consensus_radius=1)
    return Program(model, _make_images(3, 16))


def slot_attention__slots() -> Program:
    from slot_attention import SlotAttention

    model = SlotAttention(num_slots=3, dim=8, iters=3, hidden_dim=16)
    return Program(model, lambda n: (torch.randn(n, 10, 8),), modes=("train",))


def antialiased_cnns__resnet() -> Program:
    from antialiased_cnns.resnet import BasicBlock, ResNet

    return Program(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=5), _make_images(3, 64))


def efficientnet_pytorch__b0() -> Program:
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name(
        "efficientnet-b0", width_coefficient=0.25, depth_coefficient=0.3, num_classes=5,
        drop_connect_rate=0.0, image_size=32,
    )  # fmt: skip
    return Program(model, _make_images())


def unet__preactivated() -> Program:
    from unet import UNet2D

    model = UNet2D(
        1, 2, num_encoding_blocks=3, out_channels_first_layer=4, normalization="batch",
        preactivation=True, residual=True, upsampling_type="bilinear", activation="PReLU",
    )  # fmt: skip
    return Program(model, _make_images(1, 16))


def ptwt__denoising() -> Program:
    import ptwt

    def shrink(image: torch.Tensor) -> torch.Tensor:
        low, *details = ptwt.wavedec2(image, "db2", level=2, mode="reflect")
        soft = torch.nn.functional.softshrink
        shrunk = [ptwt.WaveletDetailTuple2d(*(soft(x, 0.05) for x in level)) for level in details]
        return ptwt.waverec2((low, *shrunk), "db2")

    return Program(_image_pipeline(shrink), _make_images(3, 16))


def ptwt__packets_and_scales() -> Program:
    import ptwt

    def analyze(signal: torch.Tensor) -> tuple[torch.Tensor, ...]:
        packet = ptwt.WaveletPacket(signal, "haar", maxlevel=2)
        scales, _ = ptwt.cwt(signal, torch.arange(1, 4).float(), "mexh")
        bands = [packet[node] for node in packet.get_level(2)]
        return torch.stack(bands), scales, *ptwt.swt(signal, "db1", level=2)

    return Program(Pipeline(torch.nn.Linear(16, 16), analyze), lambda n: (torch.randn(n, 16),))


def focal_frequency_loss__loss() -> Program:
    from focal_frequency_loss import FocalFrequencyLoss

    loss = FocalFrequencyLoss(patch_factor=2, log_matrix=True)
    return Program(_image_pipeline(loss), _make_images(3, 16, 2))


def positional_encodings__two_axes() -> Program:
    from positional_encodings.torch_encodings import PositionalEncoding2D, Summer

    model = Pipeline(torch.nn.Linear(8, 8), Summer(PositionalEncoding2D(8)))
    return Program(model, lambda n: (torch.randn(n, 5, 6, 8),))
