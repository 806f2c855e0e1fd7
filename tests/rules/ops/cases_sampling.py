"""Conformance cases of sampling an image at given places."""

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

GENERATOR = torch.Generator().manual_seed(0)
PLACES = 2.6 * torch.rand(1, 3, 4, 2, dtype=torch.float64, generator=GENERATOR) - 1.3
CENTRE = torch.zeros(2, 2, 2, 2, dtype=torch.float64)  # half-way between pixels, all in one place
DEEP = 2.6 * torch.rand(1, 2, 2, 3, 3, dtype=torch.float64, generator=GENERATOR) - 1.3
BILINEAR, NEAREST, CUBIC = range(3)
UNIT = torch.nn.functional.affine_grid(torch.eye(2, 3, dtype=torch.float64)[None], [1, 1, 5, 6], align_corners=False)

for corners in (False, True):
    for padding in range(3):
        for mode, exact in ((BILINEAR, True), (NEAREST, True), (CUBIC, False)):
            case("grid_sampler", data(1, 2, 5, 6), PLACES, mode, padding, corners, exact=exact)
        case("grid_sampler", data(2, 1, 3, 4), CENTRE, BILINEAR, padding, corners, exact=True)
        case("grid_sampler", data(2, 1, 4, 4), CENTRE, NEAREST, padding, corners)
        case("grid_sampler_3d", data(1, 1, 3, 2, 4), DEEP, BILINEAR, padding, corners, exact=True)
        case("grid_sampler_3d", data(1, 1, 3, 2, 4), DEEP, NEAREST, padding, corners, exact=True)
for mode in (BILINEAR, CUBIC):
    case("grid_sampler_2d", data(1, 1, 5, 6), UNIT, mode, 0, False, exact=True)  # the identity
case("grid_sampler_2d", data(1, 1, 5, 6), PLACES, BILINEAR, 2, True, exact=True)
case("grid_sampler_2d", data(1, 1, 5, 6), 3 + UNIT.abs(), BILINEAR, 0, False)  # outside of the image
unbounded("grid_sampler", data(1, 2, 5, 6), data(1, 3, 4, 2), BILINEAR, 0, False)
unbounded("grid_sampler", data(1, 2, 5, 6), data(1, 3, 4, 2), NEAREST, 0, False)
unsupported("grid_sampler", data(1, 2, 5, 6), data(1, 3, 4, 2), CUBIC, 0, False)
unsupported("grid_sampler", data(1, 2, 5, 6), PLACES * torch.inf, BILINEAR, 0, False)
