"""Time and memory of the whole command, from the shell to the report, in fresh processes.

    python -m benchmarks.command                                      # seven networks, random weights
    python -m benchmarks.command resnet50 --repeats 5 --threads 1
    python -m benchmarks.command --memory                             # and the peak of every single layer, large networks

Each run is ``lipaudit SPEC --weights random --format json`` in a process of its own, which notes two moments more than the command
does. "import" ends where the audit's own clock starts, the next four columns are the audit's laps (the first of them imports timm and
torchvision), "report" ends when the JSON text is written, and "exit" is the end of the process. Rows are medians of wall-clock seconds.
Memory is the largest resident size of that process minus that of a process which only imports lipaudit and what it loads models with.
``--memory`` measures phase by phase and layer by layer, too: the largest resident size while one norm is found, minus the size with all
weights loaded.
This module imports nothing but the standard library, since a process starts with the peak of its parent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

NETWORKS = ("resnet18", "resnet50", "resnet152", "vgg16", "mobilenet_v2", "efficientnet_b0", "convnext_tiny")
LARGE_NETWORKS = ("resnet152", "vgg16", "timm:convnext_xlarge", "timm:vit_large_patch16_224")
PHASES = ("import", "load", "capture", "norms", "propagation", "report", "exit")
IMPORTS = "import timm, torchvision, lipaudit.api, lipaudit.cli, lipaudit.records.report"
# the command, with notes of when its own clock started and when it was done
COMMAND = """
import sys, time
import lipaudit.auditing.run
class Noted(lipaudit.auditing.run.Clock):
    def __init__(self):
        print("clock", time.perf_counter(), file=sys.stderr)
        super().__init__()
lipaudit.auditing.run.Clock = Noted
from lipaudit import __main__ as command
main = command.main
def timed():
    code = main()
    print("done", time.perf_counter(), file=sys.stderr)
    return code
command.main = timed
command.run()
"""


@dataclass(frozen=True)
class Run:
    """One process: its wall-clock seconds, the seconds of each phase, and its largest resident size in MiB."""

    wall: float
    phases: dict[str, float]
    peak: float


def measured(program: str, *arguments: str, threads: int) -> tuple[float, float, float, str, str]:
    """Start, seconds, largest resident size in MiB and both outputs of a Python program in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=out, stderr=err, text=True, env=environment
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(arguments) or program}: exit code {child.returncode}: {errors.strip()[-500:]}")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return start, seconds, usage.ru_maxrss / scale, output, errors


def audit(spec: str, inputs: str | None, threads: int) -> Run:
    """One run of the command."""
    options = ["--weights", "random", "--format", "json", *(["--input", inputs] if inputs else [])]
    start, wall, peak, output, errors = measured(COMMAND, spec, *options, threads=threads)
    noted = dict(line.split() for line in errors.splitlines() if line.startswith(("clock ", "done ")))
    clock, done = float(noted["clock"]), float(noted["done"])
    laps = json.loads(output)["timings"]
    phases = {"import": clock - start, **laps, "report": done - clock - sum(laps.values()), "exit": start + wall - done}
    return Run(wall, phases, peak)


def row(spec: str, runs: Sequence[Run], base: float) -> str:
    cells = (statistics.median(run.phases[phase] for run in runs) for phase in PHASES)
    wall = statistics.median(run.wall for run in runs)
    norms = statistics.median(run.phases["norms"] / run.wall for run in runs)
    peak = statistics.median(run.peak for run in runs)
    return (
        f"{spec[-28:]:28} {wall:7.2f} " + " ".join(f"{c:11.2f}" for c in cells) + f" {norms:8.0%} {peak - base:10.0f}"
    )


def layer_peaks(spec: str, inputs: str | None, threads: int) -> None:
    """The layers that take most memory, in a process of its own."""
    program = "import sys; from benchmarks.memory import main; main(sys.argv[1:])"
    *_, output, _ = measured(program, spec, *([inputs] if inputs else []), threads=threads)
    print(output, end="", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="SPEC", help="what lipaudit audits, without weights")
    parser.add_argument("--input", help="as lipaudit --input; the networks' own by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--memory", action="store_true", help="large networks by default, and the peak of single layers"
    )
    args = parser.parse_args(argv)
    base = measured(IMPORTS, threads=args.threads)[2]  # fills the disk cache as well
    print(f"{args.threads} thread(s), {args.repeats} runs each; a process that only imports lipaudit: {base:.0f} MiB")
    print(
        f"{'network':28} {'wall s':>7} "
        + " ".join(f"{phase:>11}" for phase in PHASES)
        + f" {'norms':>8} {'MiB over':>10}"
    )
    for spec in args.networks or (LARGE_NETWORKS if args.memory else NETWORKS):
        runs = [audit(spec, args.input, args.threads) for _ in range(args.repeats)]
        print(row(spec, runs, base), flush=True)
        if args.memory:
            layer_peaks(spec, args.input, args.threads)


if __name__ == "__main__":
    main()
