"""The baseline: the algorithm ``Lip_conv`` of the paper, as published.

[P] Delattre, Barthelemy, Araujo, Allauzen, *Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram Iteration*,
ICML 2023, algorithm 3. The kernel is padded towards the input size n x n and transformed by ``rfft2``; every
frequency of the half spectrum gets the same number of Gram products in float32 (complex64) on the smaller channel side,
each product being rescaled by the Frobenius norm before. The stride is ignored. The value is that of the circular
convolution of period n in float32: for a zero-padded layer it can lie below the true norm.

Two choices that the paper leaves open:

- Frequencies go through in chunks of at most ``CHUNK_NUMBERS`` numbers, because the transformed kernel of a 1 x 1
  convolution of 1024 by 2048 channels at 14 x 14 takes 2 GB and its products as much again. The transform is taken row by row
  (width first, then height for one column of frequencies after another), which computes the same numbers as ``rfft2``.
- A kernel larger than the input is not cut down to it: n is raised to the kernel's size.

Run ``python -m benchmarks.paper`` from the root of the checkout to compare it with singular values from torch.
"""

from __future__ import annotations

import torch

CHUNK_NUMBERS = 2**25


def lip_conv(kernel: torch.Tensor, n: int, products: int = 7) -> float:
    """The paper's value for a convolution kernel (c_out, c_in, k_h, k_w) on inputs of n x n, in plain units.

    max_i ||D_i^(N+1)||_F^(2^-N), D_i the symbol at frequency i of the n x n grid and N the number of Gram products.
    """
    kernel = kernel.detach().to(torch.float32)
    if kernel.shape[1] > kernel.shape[0]:
        kernel = kernel.transpose(0, 1)
    c_out, c_in, *size = kernel.shape
    n = max(n, *size)
    along_width = torch.fft.rfft(kernel, n=n, dim=3).permute(3, 0, 1, 2)  # (n / 2 + 1, c_out, c_in, k_h)
    columns = max(1, CHUNK_NUMBERS // (2 * n * c_out * c_in))
    rows = max(1, CHUNK_NUMBERS // (2 * c_out * c_in))
    best = 0.0
    for part in along_width.split(columns):
        symbols = torch.fft.fft(part, n=n, dim=3).permute(0, 3, 1, 2).reshape(-1, c_out, c_in)
        for chunk in symbols.split(rows):
            best = max(best, float(_gram_iteration(chunk, products).max()))
    return best


def _gram_iteration(matrices: torch.Tensor, products: int) -> torch.Tensor:
    """||G^(N+1)||_F^(2^-N) of a batch (batch, rows, columns), with the paper's rescaling."""
    log_scale = matrices.real.new_zeros(len(matrices))
    for _ in range(products):
        norms = torch.linalg.matrix_norm(matrices)
        log_scale = 2 * (log_scale + norms.log())
        matrices = matrices / norms[:, None, None]
        matrices = matrices.mH @ matrices
    power = 2.0**-products
    return torch.linalg.matrix_norm(matrices).pow(power) * torch.exp(power * log_scale)


def check() -> None:
    """Compare with the largest singular value over the same frequencies on small kernels."""
    generator = torch.Generator().manual_seed(0)
    for shape, n in (((6, 4, 3, 3), 8), ((3, 7, 5, 5), 7), ((5, 5, 1, 1), 4), ((4, 4, 3, 3), 2)):
        kernel = torch.randn(shape, generator=generator)
        period = max(n, *shape[2:])
        symbols = torch.fft.fft2(kernel.double(), s=(period, period)).permute(2, 3, 0, 1)
        exact = float(torch.linalg.matrix_norm(symbols, 2).max())
        value = lip_conv(kernel, n)
        # the overshoot of 7 products is at most min(c_out, c_in)^(1 / 256), the rest is float32
        assert exact * (1 - 1e-5) <= value <= exact * min(shape[:2]) ** (1 / 256) * (1 + 1e-5), (shape, n, value, exact)
    print("the baseline agrees with torch's singular values")


if __name__ == "__main__":
    check()
