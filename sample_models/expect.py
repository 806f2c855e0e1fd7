"""Audit the sample networks and keep the reports as the expected ones.

Run from anywhere with lipaudit installed: ``python -m sample_models.expect``. What differs from run to run or from
machine to machine (:data:`VOLATILE`) is left out. Look at the difference before committing it: a bound that moved by
more than the tolerance of the audit (0.1 %) is a change of behaviour.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import lipaudit

FOLDER = Path(__file__).resolve().parent
EXPECTED = FOLDER / "expected"
VOLATILE = ("created", "timings", "environment")
# The sample networks read pixels in [0, 1] as they are, so that each audit knows the domain of pixels.
MEAN, STD = (0.0,), (1.0,)


def model_names() -> list[str]:
    """The sample networks in this folder, sorted.

    >>> "digits_resnet" in model_names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.onnx"))


def audit(name: str) -> dict[str, Any]:
    """The report of ``sample_models/NAME.onnx`` over all inputs, without :data:`VOLATILE` keys.

    Where there is no bound over all inputs, the figures over images with pixels in [0, 1] stand beside.
    """
    with contextlib.chdir(FOLDER.parent):  # the report repeats the path as it was typed
        report = lipaudit.audit(f"{FOLDER.name}/{name}.onnx", mean=MEAN, std=STD)
    record: dict[str, Any] = json.loads(report.to_json())
    return {key: value for key, value in record.items() if key not in VOLATILE}


def main() -> None:
    """Write ``expected/NAME.json`` for every sample network."""
    EXPECTED.mkdir(exist_ok=True)
    for name in model_names():
        record = audit(name)
        (EXPECTED / f"{name}.json").write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")
        network = record["network"]
        for entry in (network, *network["other_domains"]):
            print(f"{name}: over {entry['domain']} {entry['status']}, log10 upper bound {entry['log10_upper_bound']}")


if __name__ == "__main__":
    main()
