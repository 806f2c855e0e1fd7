"""Definitions of operations by others that suit bounds better than torch's own, or where torch has a kernel only.

torch's decomposition of a matrix-vector product multiplies entry by entry and sums, which loses the spectral norm of the
matrix; that of a short-time Fourier transform reads memory by strides. Here each is written in operations with sharp
rules. A definition takes the arguments of the operation's schema; the tests compare its values with the operation's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Number = int | float


def _scaled_sum(base: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta base + alpha product; where beta is 0, torch does not read ``base``."""
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (base if beta == 1 else base * beta) + scaled


def dot(self: Tensor, tensor: Tensor) -> Tensor:
    """A row times a column."""
    return torch.mm(self.unsqueeze(0), tensor.unsqueeze(1)).reshape(())


def vdot(self: Tensor, other: Tensor) -> Tensor:
    """The inner product, conjugated in the first argument."""
    return dot(self.conj() if self.is_complex() else self, other)


def mv(self: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a column."""
    return torch.mm(self, vec.unsqueeze(1)).squeeze(1)


def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The inverse of a matrix times what it is solved for: linear in that, with the norm of the inverse."""
    inverse, _ = torch.linalg.inv_ex(A)
    if B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1]):
        return torch.matmul(inverse, B.unsqueeze(-1)).squeeze(-1)
    return torch.matmul(inverse, B) if left else torch.matmul(B, inverse)


def linalg_solve_triangular(
    self: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """The same for a triangle of a matrix."""
    triangle = self.triu(int(unitriangular)) if upper else self.tril(-int(unitriangular))
    if unitriangular:
        triangle = triangle + torch.eye(self.shape[-1], dtype=self.dtype, device=self.device)
    inverse, _ = torch.linalg.inv_ex(triangle)
    return torch.matmul(inverse, B) if left else torch.matmul(B, inverse)


def cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """The same for a matrix that is given by its Cholesky factor."""
    return torch.matmul(torch.cholesky_inverse(input2, upper=upper), self)


def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The same for a matrix that is given by its LU factors: the inverse is what the identity is solved to."""
    unit = torch.eye(LU.shape[-1], dtype=LU.dtype, device=LU.device).expand(LU.shape)
    inverse = torch.linalg.lu_solve(LU, pivots, unit, adjoint=adjoint)
    return torch.matmul(inverse, B) if left else torch.matmul(B, inverse)


def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The older spelling."""
    return linalg_lu_solve(LU_data, LU_pivots, self)


def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """A column times a row, entry by entry."""
    return self.unsqueeze(1) * vec2.unsqueeze(0)


def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta self + alpha mat vec."""
    return _scaled_sum(self, mv(mat, vec), beta, alpha)


def addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta self + alpha vec1 vec2^T."""
    return _scaled_sum(self, outer(vec1, vec2), beta, alpha)


def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta self + alpha batch1 batch2, matrix by matrix."""
    return _scaled_sum(self, torch.bmm(batch1, batch2), beta, alpha)


def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta self + alpha sum_i batch1_i batch2_i, a product of the matrices side by side with those below each other."""
    left = batch1.permute(1, 0, 2).reshape(batch1.shape[1], -1)
    return _scaled_sum(self, torch.mm(left, batch2.reshape(-1, batch2.shape[2])), beta, alpha)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out_o = input1^T W_o input2 + bias_o: a linear layer of the first input, then a product with the second."""
    outputs, rows, columns = weight.shape
    matrices = weight.permute(0, 2, 1).reshape(outputs * columns, rows)
    mapped = torch.mm(input1.reshape(-1, rows), matrices.t()).reshape(-1, outputs, columns)
    product = torch.bmm(mapped, input2.reshape(-1, columns, 1)).reshape(*input1.shape[:-1], outputs)
    return product if bias is None else product + bias


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """beta self + alpha mat1 mat2."""
    return _scaled_sum(self, torch.mm(mat1, mat2), beta, alpha)


def sparse_mm(sparse: Tensor, dense: Tensor) -> Tensor:
    """A product of matrices, whatever their layout: constants are written out when a network is captured."""
    return torch.mm(sparse, dense)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The inner product of x1 / max(|x1|, eps) and x2 / max(|x2|, eps) along an axis: rows of norm 1 at most."""
    left, right = torch.broadcast_tensors(x1, x2)  # type: ignore[no-untyped-call]
    rows = [x.movedim(dim, -1) for x in (left, right)]
    rows = [x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(eps) for x in rows]
    shape, length = rows[0].shape[:-1], rows[0].shape[-1]
    return torch.bmm(rows[0].reshape(-1, 1, length), rows[1].reshape(-1, length, 1)).reshape(shape)


def std_mean(self: Tensor, dim: Any = None, *, correction: Number | None = None, keepdim: bool = False) -> Any:
    """The standard deviation, and the mean."""
    kept = {"dim": dim, "keepdim": keepdim} if dim else {"dim": tuple(range(self.dim())), "keepdim": keepdim}
    return torch.std(self, correction=1 if correction is None else correction, **kept), torch.mean(self, **kept)


def take(self: Tensor, index: Tensor) -> Tensor:
    """Entries of the flattened tensor, from its end where an index is negative."""
    return self.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def scatter_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    """Entries added at their places, the older spelling of ``scatter_add``.

    Raises:
        NotImplementedError: for products.
    """
    if reduce != "add":
        raise NotImplementedError
    return self.scatter_add(dim, index, src)


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Entries written into the flattened tensor, or added to it."""
    flat = self.reshape(-1).index_put([index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(self.shape)


def nansum(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """The sum, on numbers."""
    return torch.sum(self, tuple(range(self.dim())) if dim is None else dim, keepdim, dtype=dtype)


def nanmean(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """The mean, on numbers."""
    return torch.mean(self, tuple(range(self.dim())) if dim is None else dim, keepdim, dtype=dtype)


def quantile(
    self: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """One quantile: between the two entries in sorted order around q (n - 1)."""
    rows = self.reshape(-1) if dim is None else self.movedim(dim, -1)
    place = q * (rows.shape[-1] - 1)
    below = int(place)
    weight = {"lower": 0.0, "higher": float(place > below), "midpoint": 0.5 * (place > below)}
    rounded = {"nearest": float(round(place) - below), "linear": place - below}
    share = (weight | rounded)[interpolation]
    ordered = rows.sort(-1).values
    value = ordered.select(-1, below)
    if share:
        value = value.lerp(ordered.select(-1, below + 1), share)
    return value if not keepdim else value.reshape([1] * self.dim()) if dim is None else value.unsqueeze(dim)


def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = False,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Frames of the signal, times the window, each transformed; as ``torch.stft`` for given arguments.

    Raises:
        NotImplementedError: for a window aligned to itself.
    """
    if align_to_window:
        raise NotImplementedError
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    signal = self if self.dim() == 2 else self.unsqueeze(0)
    if center:
        extra = (n_fft // 2, n_fft // 2)
        signal = torch.nn.functional.pad(signal.unsqueeze(1), extra, mode=pad_mode).squeeze(1)
    frames = signal.unfold(-1, n_fft, hop)
    if window is not None or length != n_fft:
        taps = torch.ones(length, dtype=self.dtype, device=self.device) if window is None else window
        left = (n_fft - length) // 2
        frames = frames * torch.nn.functional.pad(taps, (left, n_fft - length - left))
    norm = "ortho" if normalized else "backward"
    whole = onesided is False or self.is_complex()
    spectrum = torch.fft.fft(frames, norm=norm) if whole else torch.fft.rfft(frames, norm=norm)
    spectrum = spectrum.transpose(-1, -2)
    if self.dim() == 1:
        spectrum = spectrum.squeeze(0)
    return spectrum if return_complex else torch.view_as_real(spectrum)


def stft_without_center(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The overload that does not pad."""
    center, mode = False, "reflect"
    return stft(
        self, n_fft, hop_length, win_length, window, center, mode, normalized, onesided, return_complex, align_to_window
    )


DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "aten.dot.default": dot,
    "aten.vdot.default": vdot,
    "aten.mv.default": mv,
    "aten.linalg_solve.default": linalg_solve,
    "aten.linalg_solve_triangular.default": linalg_solve_triangular,
    "aten.cholesky_solve.default": cholesky_solve,
    "aten.linalg_lu_solve.default": linalg_lu_solve,
    "aten.lu_solve.default": lu_solve,
    "aten.outer.default": outer,
    "aten.ger.default": outer,
    "aten.addmv.default": addmv,
    "aten.addr.default": addr,
    "aten.baddbmm.default": baddbmm,
    "aten.addbmm.default": addbmm,
    "aten.bilinear.default": bilinear,
    "aten.addmm.default": addmm,
    "aten._sparse_addmm.default": addmm,
    "aten._sparse_mm.default": sparse_mm,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.std_mean.correction": std_mean,
    "aten.scatter.reduce": scatter_reduce,
    "aten.take.default": take,
    "aten.put.default": put,
    "aten.nansum.default": nansum,
    "aten.nanmean.default": nanmean,
    "aten.quantile.scalar": quantile,
    "aten.stft.center": stft,
    "aten.stft.default": stft_without_center,
}
