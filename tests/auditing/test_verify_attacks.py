"""Attacks on ``lipaudit verify``: whatever is lowered, moved or exchanged is refused with exit code 1, what cannot be read with 2."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.auditing.certificate import read_certificate
from lipaudit.cli import main
from lipaudit.network.forms.certificate import Certificate

MODEL = f"{__name__}:network"
LOWER = math.log10(0.99)


def network() -> nn.Sequential:
    """Two resolutions, so that there are segments with weights between them, and bounded outputs."""
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1), nn.Tanh()
    ).eval()  # fmt: skip


def other_weight() -> nn.Sequential:
    net = network()
    with torch.no_grad():
        net[4].weight[0, 0] += 1e-3
    return net


def other_network() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(512, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


class Release:
    """A report and its certificate, and the files of an attacker beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.proof = folder, folder / "proof.safetensors"
        self.report = lipaudit.audit(network(), (2, 16, 16), effort="quick", certificate=self.proof)
        self.document = self.report.to_dict()

    def verified(self, document: dict[str, Any] | str, proof: Path | None = None, model: str = MODEL) -> int:
        file = self.folder / "report.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return main(["verify", str(file), model, str(proof or self.proof), "-q"])

    def forged(self, certificate: Certificate) -> tuple[dict[str, Any], Path]:
        """Another certificate, and the report that names it."""
        file = self.folder / "forged.safetensors"
        file.write_bytes(certificate.to_bytes())
        document = copy.deepcopy(self.document)
        for bound in document["network"]["bounds"]:
            if bound["certificate_sha256"]:
                bound["certificate_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        return document, file


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "lipaudit.auditing.domain_bounds.EFFORTS", {"quick": 2e9}
        )  # less than the forms of all entries take
        made = Release(tmp_path_factory.mktemp("release"))
    assert len(made.report.network.bounds[1].segments) == 2
    assert made.verified(made.document) == 0
    return made


def upper_figures(value: Any, place: str = "") -> list[tuple[str, dict[str, Any], str]]:
    """Every upper bound in a document: where it stands, the object and its key."""
    if isinstance(value, list):
        return [entry for i, each in enumerate(value) for entry in upper_figures(each, f"{place}[{i}]")]
    if not isinstance(value, dict):
        return []
    keys = [key for key in value if key.endswith(("upper_bound", "log10_factor", "log10_product", "output_diameter"))]
    own = [(f"{place}.{key}", value, key) for key in keys if isinstance(value[key], float)]
    return [*own, *(entry for key, each in value.items() for entry in upper_figures(each, f"{place}.{key}"))]


def lower(entry: dict[str, Any], key: str) -> None:
    entry[key] = entry[key] + LOWER if "log10" in key else entry[key] * 0.99


def test_every_upper_bound_that_is_lowered_by_one_percent_is_refused(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [place for place, *_ in upper_figures(release.document)]
    assert len(places) > 15
    for i, place in enumerate(places):
        document = copy.deepcopy(release.document)
        _, entry, key = upper_figures(document)[i]
        lower(entry, key)
        assert release.verified(document) == 1, place
        assert "lipaudit: refused: " in capsys.readouterr().err


def test_a_figure_that_is_lowered_wherever_it_stands_is_refused(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    document = copy.deepcopy(release.document)
    for _, entry, key in upper_figures(document["network"]):
        lower(entry, key)
    assert release.verified(document) == 1
    assert "refused: The upper bound of the network that is proved is 10^" in capsys.readouterr().err
    only = copy.deepcopy(release.document)
    only["network"]["upper_bound"] *= 0.99
    assert release.verified(only) == 1
    assert "refused: the report contradicts itself: network has the upper_bound " in capsys.readouterr().err
    both = copy.deepcopy(release.document)
    lower(both["network"], "upper_bound")
    lower(both["network"], "log10_upper_bound")
    assert release.verified(both) == 1
    assert "another upper bound than the least of network.bounds: 10^" in capsys.readouterr().err


def with_numbers(change: Callable[[torch.Tensor], object], kind: str) -> Callable[[Certificate], Certificate]:
    """A change of the largest number of a kind."""

    def changed(certificate: Certificate) -> Certificate:
        numbers = {name: values.clone() for name, values in getattr(certificate, kind).items()}
        largest = max(numbers.values(), key=lambda values: float(values.max()))
        largest[largest.argmax()] = change(largest.max())
        return replace(certificate, **{kind: numbers})

    return changed


@pytest.mark.parametrize("kind", ["multipliers", "metrics"])
@pytest.mark.parametrize("factor", [0.99, -1.0, 0.0, math.nan, math.inf, 1e300])
def test_a_number_of_the_certificate_that_is_altered_is_refused(release: Release, kind: str, factor: float) -> None:
    certificate, _ = read_certificate(str(release.proof))
    document, file = release.forged(with_numbers(lambda value: value * factor, kind)(certificate))
    assert release.verified(document, file) == 1
    assert release.verified(release.document, file) == 1  # its hash


@pytest.mark.parametrize(
    "change",
    [
        lambda c: replace(c, cuts=(), forms=c.forms[:1]),
        lambda c: replace(c, cuts=c.cuts[::-1] * 2, forms=("entries",) * (2 * len(c.cuts) + 1)),
        lambda c: replace(c, forms=("constant",) * len(c.forms)),
        lambda c: replace(c, forms=("entries",) * len(c.forms)),
        lambda c: replace(c, multipliers={}),
        lambda c: replace(c, multipliers=dict(zip(c.multipliers, reversed(c.multipliers.values()), strict=True))),
        lambda c: replace(c, multipliers={name: values.float() for name, values in c.multipliers.items()}),
    ],
)
def test_cuts_and_forms_that_are_altered_are_refused(
    release: Release, change: Callable[[Certificate], Certificate]
) -> None:
    certificate, _ = read_certificate(str(release.proof))
    assert release.verified(*release.forged(change(certificate))) == 1


def test_another_model_and_the_certificate_of_another_are_refused(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.verified(release.document, model=f"{__name__}:other_weight") == 1
    assert "refused: The model has other weights than the report says" in capsys.readouterr().err
    assert release.verified(release.document, model=f"{__name__}:other_network") == 1
    foreign = release.folder / "foreign.safetensors"
    lipaudit.audit(other_network(), (2, 16, 16), effort="quick", certificate=foreign)
    assert release.verified(release.document, foreign) == 1
    assert "refused: The certificate is not the one that the report names" in capsys.readouterr().err


def test_forms_larger_than_any_search_are_refused(release: Release) -> None:
    """A certificate may not ask for more work than the effort of the report allowed."""
    document = copy.deepcopy(release.document)
    document["settings"]["effort"] = "none"
    assert release.verified(document) == 1


def test_what_cannot_be_read_is_another_exit_code(release: Release) -> None:
    pickled = release.folder / "pickled.safetensors"
    torch.save({"multipliers/relu": torch.ones(2)}, pickled)
    huge = release.folder / "huge.safetensors"
    huge.write_bytes((2**63 - 1).to_bytes(8, "little") + b"{}")
    for file in (pickled, huge, release.folder / "missing.safetensors"):
        assert release.verified(release.document, file) == 2
    text = json.dumps(release.document)
    bound = repr(release.document["network"]["upper_bound"])
    for broken in (text.replace(bound, "NaN"), text.replace(bound, "Infinity"), text[:-20], "[]"):
        assert release.verified(broken) == 2
    assert release.verified(text.replace(bound, "-" + bound)) == 1
