"""Short-time Fourier transform and its inverse: windows of the signal, each transformed."""

from flambeau.base.errors import fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import abs as magnitude
from flambeau.ops.fourier import fourier_transform
from flambeau.ops.interpose import visible
from flambeau.ops.padding import pad
from flambeau.ops.reinterpret import view_as_complex, view_as_real
from flambeau.ops.scatter import index_add
from flambeau.ops.shape import unfold
from flambeau.ops.spec import public
from flambeau.ops.view import expand, narrow, reshape, squeeze, transpose, unsqueeze
from flambeau.types.dtype import complex128, float32, float64


def frame_window(name, like, n_fft, win_length, window, dtype):
    """The window in the middle of n_fft values; None where it is all ones."""
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        fail(name, "the window must be a vector of win_length values", tuple(window.shape), (win_length,))
    if not 0 < win_length <= n_fft:
        fail(name, "expected 0 < win_length <= n_fft", win_length, n_fft)
    if window is None:
        window = like.new_ones((win_length,), dtype=dtype)
    before = (n_fft - win_length) // 2
    return pad(window, (before, n_fft - win_length - before))


@public(method=True)
@visible
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
         normalized=False,
         onesided=None, return_complex=None, align_to_window=None):
    """The spectra of overlapping windows: (time) or (batch, time) -> (..., frequencies, windows), complex.

    A window of `win_length` values in n_fft is taken every `hop_length` (n_fft // 4) values; with
    `center` the signal is padded so that window t lies around the value t * hop_length.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    if input.ndim not in (1, 2):
        fail("stft", "expected a signal or a batch of signals", tuple(input.shape), "1 or 2 dims")
    if hop <= 0:
        fail("stft", "hop_length must be positive", hop)
    if return_complex is None and input.dtype.kind != "c":
        fail("stft", "return_complex must be given for real inputs", hint="return_complex=True")
    x = unsqueeze(input, 0) if input.ndim == 1 else input
    if center:
        x = squeeze(pad(unsqueeze(x, 1), (n_fft // 2, n_fft // 2), mode=pad_mode), 1)
    if not 0 < n_fft <= x.shape[-1]:
        fail("stft", f"expected 0 < n_fft <= {x.shape[-1]}", n_fft)
    shape = frame_window("stft", input, n_fft, n_fft if win_length is None else win_length, window,
                         input.dtype)
    frames = unfold(x, -1, n_fft, hop) * shape
    one_sided = (onesided if onesided is not None else True) and input.dtype.kind != "c"
    spectra = fourier_transform("stft", frames, "r2c" if one_sided else "c2c", None, (-1,), "ortho" if normalized else None,
                  False)
    spectra = transpose(spectra, -1, -2)
    if input.ndim == 1:
        spectra = squeeze(spectra, 0)
    return spectra if return_complex or return_complex is None else view_as_real(spectra)


@public(method=True)
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False,
          onesided=None,
          length=None, return_complex=False):
    """The signal whose `stft` is nearest to `input`: (..., frequencies, windows) -> (..., time)."""
    if input.dtype.kind != "c":
        input = view_as_complex(input)
    hop = n_fft // 4 if hop_length is None else hop_length
    if input.ndim not in (2, 3):
        fail("istft", "expected a spectrum or a batch of them", tuple(input.shape), "2 or 3 dims")
    one_sided = input.shape[-2] == n_fft // 2 + 1 if onesided is None else onesided
    if return_complex and one_sided:
        fail("istft", "a one-sided spectrum belongs to a real signal", hint="onesided=False")
    spectra = transpose(unsqueeze(input, 0) if input.ndim == 2 else input, -1, -2)
    norm = "ortho" if normalized else None
    if not one_sided and not return_complex:
        spectra = narrow(spectra, -1, 0, n_fft // 2 + 1)
    kind = "c2c" if return_complex else "c2r"
    frames = fourier_transform("istft", spectra, kind, (n_fft,), (-1,), norm, True)              # (batch, windows, n_fft)
    real = float64 if input.dtype is complex128 else float32
    shape = frame_window("istft", frames, n_fft, n_fft if win_length is None else win_length, window, real)
    batch, count = frames.shape[0], frames.shape[1]
    total = n_fft + hop * (count - 1)
    places = reshape(unsqueeze(iota((count,), 0) * hop, 1) + unsqueeze(iota((n_fft,), 0), 0), (-1,))
    signal = index_add(frames.new_zeros((batch, total)), 1, places,
                       reshape(frames * shape, (batch, count * n_fft)))
    squares = reshape(expand(shape * shape, (count, n_fft)), (count * n_fft,))
    envelope = index_add(frames.new_zeros((total,), dtype=squares.dtype), 0, places, squares)
    start = n_fft // 2 if center else 0
    end = total - start if center else total
    kept = end - start if length is None else min(length, total - start)
    signal, envelope = narrow(signal, 1, start, kept), narrow(envelope, 0, start, kept)
    if float(magnitude(envelope).min()) < 1e-11:
        fail("istft", "the windows do not overlap everywhere (window overlap add min is below 1e-11)")
    signal = signal / envelope
    if length is not None and length > kept:
        signal = pad(signal, (0, length - kept))
    return squeeze(signal, 0) if input.ndim == 2 else signal
