"""Losses on the certified radius of a decision, in units of the input.

With L a bound of the Lipschitz constant of the network f, z = f(x) its logits and y the right class, every difference z_y - z_k has the
constant sqrt(2) L, since |e_y - e_k| = sqrt(2). So the class of x stays y under every change of x of l2 norm below

    r(x) = min over k of (z_y - z_k) / (sqrt(2) L)

(Tsuzuku, Sato and Sugiyama, *Lipschitz-Margin Training*, NeurIPS 2018, https://arxiv.org/abs/1802.04034). r is not positive where the class
is wrong. It does not change when f is multiplied by a number, so that a loss of r cannot be lowered by larger logits.

``log_bound`` is log L: a number, such as 0 for a network that is 1-Lipschitz by construction, or the differentiable bound of
:class:`lipaudit.training.network.NetworkBound`.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from lipaudit.errors import InvalidValueError, UsageError

LogBound = float | torch.Tensor


def certified_radii(logits: torch.Tensor, classes: torch.Tensor, log_bound: LogBound = 0.0) -> torch.Tensor:
    """r of every sample: min over k of (z_y - z_k) / (sqrt(2) L), negative where the class is wrong.

    Computed in the precision of the logits, without a margin for rounding: a quantity to train with. ``lipaudit certify`` certifies.

    Args:
        logits: (n, classes), floating point, at least two classes.
        classes: (n,), the right class of each sample.
        log_bound: the natural logarithm of L.

    Returns:
        (n,), in the unit of the network's input.

    Raises:
        UsageError: for logits and classes that do not fit each other.

    >>> logits, classes = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 0])
    >>> [round(radius, 3) for radius in certified_radii(logits, classes, math.log(2)).tolist()]
    [0.707, -0.354]
    """
    scores = _scores(logits, classes, log_bound)
    right = functional.one_hot(classes, scores.shape[1]).bool()
    return scores[right] - scores.masked_fill(right, -math.inf).amax(1)


def radius_hinge(logits: torch.Tensor, classes: torch.Tensor, radius: float, log_bound: LogBound = 0.0) -> torch.Tensor:
    """The multi-class hinge loss with a margin in units of the input:

        mean over samples of  sum over k != y of  max(0, radius - (z_y - z_k) / (sqrt(2) L)).

    It is 0 where every sample has its class and a certified radius of at least ``radius``. The sum over classes is the hinge of Weston and
    Watkins (ESANN 1999); with L = 1 it is a multiple of that in Béthune et al., *Pay attention to your loss* (NeurIPS 2022,
    https://arxiv.org/abs/2104.05097).

    Args:
        logits: (n, classes), floating point, at least two classes.
        classes: (n,), the right class of each sample.
        radius: above 0, in the unit of the network's input.
        log_bound: the natural logarithm of L.

    Returns:
        a scalar.

    Raises:
        UsageError: for a radius that is not above 0, or logits and classes that do not fit each other.

    >>> round(radius_hinge(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0]), 1.5).item(), 3)
    0.086
    """
    _check("radius", radius, zero=False)
    scores = _scores(logits, classes, log_bound)
    shortfall = functional.relu(radius - scores.gather(1, classes[:, None]) + scores)
    return shortfall.scatter(1, classes[:, None], 0.0).sum(1).mean()


def radius_cross_entropy(
    logits: torch.Tensor, classes: torch.Tensor, temperature: float, log_bound: LogBound = 0.0, radius: float = 0.0
) -> torch.Tensor:
    """The cross entropy of scores in units of the input, with a temperature and a radius:

        mean over samples of  log(1 + sum over k != y of exp(-temperature ((z_y - z_k) / (sqrt(2) L) - radius))).

    The temperature sets the trade-off between accuracy and radius: a large one counts errors, a small one pulls all radii up (Béthune,
    Boissin, Serrurier, Mamalet, Friedrich and González-Sanz, *Pay attention to your loss: understanding misconceptions about 1-Lipschitz
    neural networks*, NeurIPS 2022, https://arxiv.org/abs/2104.05097). ``radius`` is what Tsuzuku, Sato and Sugiyama (2018) add to
    the logits of the wrong classes: a sample whose certified radius is below it counts as an error.

    Args:
        logits: (n, classes), floating point, at least two classes.
        classes: (n,), the right class of each sample.
        temperature: above 0, per unit of the input.
        log_bound: the natural logarithm of L.
        radius: 0 or more, in the unit of the network's input.

    Returns:
        a scalar.

    Raises:
        UsageError: for a temperature or a radius out of range, or logits and classes that do not fit each other.

    >>> logits, classes = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
    >>> math.isclose(radius_cross_entropy(logits, classes, 4.0).item(), math.log(1 + math.exp(-4 * math.sqrt(2))), rel_tol=1e-4)
    True
    """
    _check("temperature", temperature, zero=False)
    _check("radius", radius, zero=True)
    scores = _scores(logits, classes, log_bound)
    right = functional.one_hot(classes, scores.shape[1]).to(scores)
    return functional.cross_entropy(temperature * (scores - radius * right), classes)


def _scores(logits: torch.Tensor, classes: torch.Tensor, log_bound: LogBound) -> torch.Tensor:
    """z / (sqrt(2) L)."""
    if logits.dim() != 2 or not logits.is_floating_point() or logits.shape[1] < 2:
        raise UsageError(
            f"the logits must be floating-point numbers of shape (n, classes) with two classes or more, got {logits.dtype} "
            f"{tuple(logits.shape)}"
        )
    if classes.dtype != torch.long or classes.shape != logits.shape[:1]:
        raise UsageError(
            f"the classes must be int64 numbers of shape ({logits.shape[0]},), got {classes.dtype} {tuple(classes.shape)}"
        )
    if isinstance(log_bound, torch.Tensor):
        return logits * torch.exp(-log_bound.to(logits)) / math.sqrt(2)
    return logits / (math.sqrt(2) * math.exp(log_bound))


def _check(name: str, value: float, zero: bool) -> None:
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not (value >= 0 if zero else value > 0)
        or value == math.inf
    ):
        raise InvalidValueError(name, "a finite number of 0 or more" if zero else "a finite number above 0", value)
