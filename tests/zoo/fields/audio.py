"""Sound: front ends, codecs, filters, conformers, quantizers and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.zoo.modules import Pipeline
from tests.zoo.program import Program


def _sound_pipeline(function: Callable[..., Any]) -> Pipeline:
    """Return a function after a short filter with parameters."""
    return Pipeline(torch.nn.Conv1d(1, 1, 3, padding=1), function)


def _make_sounds(length: int = 512, count: int = 1) -> Callable[[int], Any]:
    return lambda n: tuple(torch.randn(n, 1, length) for _ in range(count))


def _make_frames(n: int) -> tuple[torch.Tensor]:
    return (torch.randn(n, 12, 16),)


# -- conformers and codecs


def conformer__encoder() -> Program:
    from conformer import Conformer

    return Program(Conformer(16, depth=2, dim_head=8, heads=2, conv_kernel_size=5), _make_frames)


def conformer__causal_block() -> Program:
    from conformer import ConformerBlock

    model = ConformerBlock(dim=16, dim_head=8, heads=2, conv_kernel_size=5, conv_causal=True)
    return Program(model, _make_frames)


def snac__codec() -> Program:
    from snac import SNAC

    model = SNAC(
        encoder_dim=16, encoder_rates=[2, 4], latent_dim=64, decoder_dim=64, decoder_rates=[4, 2],
        attn_window_size=4, codebook_size=16, codebook_dim=4, vq_strides=[2, 1], noise=False,
    )  # fmt: skip
    return Program(model, _make_sounds(500))


# -- quantizers


def vector_quantize_pytorch__moving_codebook() -> Program:
    from vector_quantize_pytorch import VectorQuantize

    model = VectorQuantize(16, 8, codebook_dim=4, heads=2, separate_codebook_per_head=True)
    return Program(Pipeline(torch.nn.Linear(16, 16), model), _make_frames)


def vector_quantize_pytorch__rotated_gradients() -> Program:
    from vector_quantize_pytorch import VectorQuantize

    model = VectorQuantize(
        16, 8, learnable_codebook=True, ema_update=False, rotation_trick=True,
        orthogonal_reg_weight=1.0,
    )  # fmt: skip
    return Program(Pipeline(torch.nn.Linear(16, 16), model), _make_frames)


def vector_quantize_pytorch__random_projection() -> Program:
    from vector_quantize_pytorch import RandomProjectionQuantizer

    model = RandomProjectionQuantizer(dim=16, codebook_size=8, codebook_dim=4, num_codebooks=2)
    return Program(model, _make_frames, modes=("compile", "export"))


def vector_quantize_pytorch__sim_vq() -> Program:
    from vector_quantize_pytorch import SimVQ

    return Program(Pipeline(torch.nn.Linear(16, 16), SimVQ(16, 8)), _make_frames)


# -- filters and front ends


def julius__resampling() -> Program:
    import julius

    def resample(sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        low = julius.resample_frac(sound, 4, 3, zeros=4)
        return low, julius.resample_frac(low, 3, 4, zeros=4, full=True)

    return Program(_sound_pipeline(resample), _make_sounds(100))


def julius__bands() -> Program:
    import julius

    bands = julius.SplitBands(1000, n_bands=3, fft=False)
    low_pass = julius.LowPassFilter(0.2, stride=2, fft=True)

    def split(sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return bands(sound), low_pass(sound)

    return Program(_sound_pipeline(split), _make_sounds(300))


def julius__fft_convolution() -> Program:
    from julius import FFTConv1d

    return Program(FFTConv1d(1, 4, 40, stride=2, padding=3), _make_sounds(300))


def auraloss__spectral_losses() -> Program:
    from auraloss.freq import MultiResolutionSTFTLoss

    loss = MultiResolutionSTFTLoss([64, 32], [16, 8], [64, 24], w_lin_mag=1.0)
    return Program(_sound_pipeline(loss), _make_sounds(256, 2))


def auraloss__perceptual_weighting() -> Program:
    from auraloss.freq import STFTLoss

    loss = STFTLoss(
        64, 16, 64, perceptual_weighting=True, sample_rate=44100, mag_distance="L2",
        output="full",
    )  # fmt: skip
    return Program(_sound_pipeline(loss), _make_sounds(256, 2))


def auraloss__losses_in_time() -> Program:
    from auraloss.time import DCLoss, ESRLoss, LogCoshLoss, SDSDRLoss, SISDRLoss, SNRLoss

    criteria = [DCLoss(), ESRLoss(), LogCoshLoss(), SDSDRLoss(), SISDRLoss(), SNRLoss()]

    def measure(sound: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.stack([criterion(sound, target) for criterion in criteria])

    return Program(_sound_pipeline(measure), _make_sounds(64, 2))


def asteroid_filterbanks__sinc_encoder() -> Program:
    from asteroid_filterbanks import Decoder, Encoder, ParamSincFB

    class Separator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder(ParamSincFB(8, 15, stride=4))
            self.decoder = Decoder.pinv_of(self.encoder)

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.encoder(sound).relu())

    return Program(Separator(), _make_sounds(100))


def asteroid_filterbanks__spectrum_and_back() -> Program:
    from asteroid_filterbanks import make_enc_dec, transforms

    encoder, decoder = make_enc_dec("stft", 16, 16, stride=8)

    def mask(sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectrum = encoder(sound)
        magnitude, phase = transforms.magphase(spectrum)
        masked = transforms.apply_mag_mask(spectrum, magnitude.sigmoid())
        return magnitude, phase, decoder(masked), transforms.to_torch_complex(spectrum)

    return Program(_sound_pipeline(mask), _make_sounds(100))


def asteroid_filterbanks__energy_normalization() -> Program:
    from asteroid_filterbanks import STFTFB, Encoder
    from asteroid_filterbanks.pcen import PCEN
    from asteroid_filterbanks.transforms import mag

    class Frontend(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.pcen = Encoder(STFTFB(16, 16, stride=8)), PCEN(n_channels=9)

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            return self.pcen(mag(self.encoder(sound)).unsqueeze(1))

    return Program(Frontend(), _make_sounds(100), modes=("compile", "export"))


def nnAudio__mel_spectrogram() -> Program:
    from nnAudio.features import MelSpectrogram

    model = MelSpectrogram(
        sr=800, n_fft=64, n_mels=8, hop_length=16, trainable_mel=True, trainable_STFT=True,
        verbose=False,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 400),))


def nnAudio__constant_q() -> Program:
    from nnAudio.features import CQT1992v2, CQT2010v2

    options = {"hop_length": 32, "fmin": 60.0, "verbose": False}

    class Transforms(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.direct = CQT1992v2(1000, n_bins=12, trainable=True, **options)
            self.octaves = CQT2010v2(1000, n_bins=24, output_format="Complex", **options)

        def forward(self, sound: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.direct(sound), self.octaves(sound)

    return Program(Transforms(), lambda n: (torch.randn(n, 600),))


def nnAudio__inverse_stft() -> Program:
    from nnAudio.features import STFT

    class Denoiser(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stft = STFT(
                n_fft=32, hop_length=8, iSTFT=True, trainable=True, verbose=False, sr=800
            )

        def forward(self, sound: torch.Tensor) -> torch.Tensor:
            spectrum = self.stft(sound)
            return self.stft.inverse(spectrum * 0.5, onesided=True, length=sound.shape[-1])

    return Program(Denoiser(), lambda n: (torch.randn(n, 200),))


def nnAudio__cepstrum() -> Program:
    from nnAudio.features import MFCC

    model = MFCC(
        sr=800, n_mfcc=6, n_fft=64, n_mels=8, hop_length=16, trainable_mel=True, verbose=False
    )
    return Program(model, lambda n: (torch.randn(n, 400),))
