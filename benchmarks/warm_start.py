"""The bound of an ONNX file whose weights moved a little: searched for anew, and from the certificate of the file as it was.

    python -m benchmarks.warm_start sample_models/digits_resnet.onnx --moved 0.001 0.05

Every weight with two axes or more gets normal noise of the given part of its tensor's standard deviation. Seconds are of the
processor, on one core, loading and capture included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

import lipaudit


def main() -> None:
    """One line per file and size of the move."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="ONNX files")
    parser.add_argument("--moved", nargs="+", type=float, default=[0.001, 0.05], help="parts of the standard deviation")
    parser.add_argument("--effort", default="quick")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'network':24s} {'moved':>6s} {'cold':>9s} {'s':>6s} {'warm':>9s} {'s':>6s}")
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.safetensors", Path(folder) / "second.onnx"
        for model in arguments.models:
            lipaudit.audit(str(model), effort=arguments.effort, certificate=first)
            for part in arguments.moved:
                onnx.save(moved(onnx.load(model), part), second)
                cold, cold_seconds = bound(second, arguments.effort)
                warm, warm_seconds = bound(second, arguments.effort, first)
                print(
                    f"{model.stem:24s} {part:6g} {cold:9.4f} {cold_seconds:6.1f} {warm:9.4f} {warm_seconds:6.1f}",
                    flush=True,
                )


def moved(model: onnx.ModelProto, part: float) -> onnx.ModelProto:
    """The model with noise of ``part`` of every matrix's and kernel's standard deviation."""
    generator = np.random.default_rng(1)
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if weight.ndim > 1 and np.issubdtype(weight.dtype, np.floating):
            noise = (part * weight.std() * generator.standard_normal(weight.shape)).astype(weight.dtype)
            tensor.CopyFrom(numpy_helper.from_array(weight + noise, tensor.name))
    return model


def bound(model: Path, effort: str, start: Path | None = None) -> tuple[float, float]:
    """log10 of the network's bound, and the seconds that it took."""
    begun = time.process_time()
    report = lipaudit.audit(str(model), effort=effort, warm_start=start)
    assert report.network.log10_upper_bound is not None
    return report.network.log10_upper_bound, time.process_time() - begun


if __name__ == "__main__":
    main()
