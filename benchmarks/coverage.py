"""Which pretrained architectures lipaudit covers: every model of timm and torchvision, one row of a CSV file each.

    python benchmarks/coverage.py zoo.csv                          # structure only: no weights, seconds per model
    python benchmarks/coverage.py full.csv --full --max-params 30e6     # with random weights and all norms
    python benchmarks/coverage.py zoo.csv --library timm --pattern 'resnet*' --part 1/4
    python benchmarks/coverage.py zoo.csv --summary                # counts of what the file holds

Models run one after the other in a worker process, which is replaced after a crash, a timeout, or 25 models. Names that the
file already holds are skipped, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

COLUMNS = (
    "model", "family", "params", "input", "captured", "error", "status_global", "status_pixels", "unsupported",
    "unsupported_reasons", "unbounded", "log10_bound", "log10_bound_pixels", "notes", "seconds",
    "cpu_seconds", "peak_memory_mb",
)  # fmt: skip
MODELS_PER_WORKER = 25
# a global bound holds over pixels, too, and where an operation has no rule nothing is claimed anywhere
GLOBALLY_KNOWN = {"finite": "finite", "unsupported": "unsupported"}
SKIPPED = "skipped: too many parameters"


def family(spec: str) -> str:
    """The file in which timm defines the model, or torchvision's kind of task."""
    library, _, name = spec.partition(":")
    if library == "timm":
        import timm.models

        return inspect.getmodule(timm.model_entrypoint(name)).__name__.rpartition(".")[2]
    from torchvision.models import get_model_builder

    parts = get_model_builder(name).__module__.split(".")
    return parts[2] if len(parts) > 3 else "classification"


def counted(layers: list[Any], status: str) -> str:
    counts = Counter(layer.op for layer in layers if layer.status == status)
    return "; ".join(f"{op}:{count}" for op, count in counts.most_common())


def reasons(layers: list[Any], status: str) -> str:
    short = {id(layer): layer.reason.partition(":")[0].replace(";", ",")[:120] for layer in layers}
    counts = Counter(f"{layer.op} ({short[id(layer)]})" for layer in layers if layer.status == status)
    return "; ".join(f"{text}:{count}" for text, count in counts.most_common())


def examine(spec: str, full: bool, max_params: float) -> dict[str, Any]:
    """One row of the file."""
    import lipaudit
    from lipaudit.errors import LipauditError
    from lipaudit.frontends.load import load

    row: dict[str, Any] = {"model": spec, "family": family(spec)}
    reset_peak_memory()
    start, cpu = time.perf_counter(), time.process_time()
    options: dict[str, Any] = {"weights": "random"} if full else {"structure": True}
    try:
        if max_params:
            size = sum(p.numel() for p in load(spec, structure=True).module.parameters())
            if size > max_params:
                return row | {"params": size, "captured": "no", "error": SKIPPED}
        report = lipaudit.audit(spec, **options)
    except LipauditError as error:
        row |= {"captured": "no", "error": " ".join(str(error).split())[:400]}
    else:
        pixels = next((other for other in report.network.other_domains if other.domain == "pixels"), None)
        shapes = report.model.input_shapes.items()
        row |= {
            "params": report.model.num_parameters,
            "input": " ".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes),
            "captured": "yes",
            "status_global": report.network.status,
            "status_pixels": pixels.status if pixels else GLOBALLY_KNOWN.get(report.network.status, ""),
            "unsupported": counted(report.layers, "unsupported"),
            "unsupported_reasons": reasons(report.layers, "unsupported"),
            "unbounded": reasons(report.layers, "unbounded"),
            "log10_bound": report.network.log10_upper_bound,
            "log10_bound_pixels": pixels.log10_upper_bound if pixels else None,
            "notes": " ".join(note for note in report.notes if not note.startswith(("The structure", "The weights"))),
        }
    row["seconds"] = round(time.perf_counter() - start, 2)
    row["cpu_seconds"] = round(time.process_time() - cpu, 2)
    return row | {"peak_memory_mb": peak_memory_mb()}


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return round(int(match[1]) / 1024) if match else 0


def work(full: bool, max_params: float) -> None:
    """The worker: a name per line in, a row per line out."""
    import contextlib
    import gc
    import traceback
    import warnings

    import lipaudit  # noqa: F401  its objects are none to search for garbage

    warnings.simplefilter("ignore")
    gc.freeze()
    out = sys.stdout
    for line in sys.stdin:
        spec = line.strip()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                row = examine(spec, full, max_params)
        except Exception as error:  # a defect of lipaudit: the row says so, the run goes on
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"DEFECT {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            row = {"model": spec, "family": family(spec), "captured": "no", "error": " ".join(text.split())[:400]}
        out.write(json.dumps(row) + "\n")
        out.flush()


class Worker:
    """A process that examines models until it fails or has examined enough."""

    def __init__(self, arguments: list[str]) -> None:
        command = [sys.executable, __file__, "--worker", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.left = MODELS_PER_WORKER

    def examine(self, spec: str, timeout: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.left -= 1
        failed = {"model": spec, "family": family(spec), "captured": "no"}
        try:
            self.process.stdin.write(spec + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.left = 0
            return failed | {"error": "DEFECT the worker ended"}
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return dict(json.loads(line))
        self.left = 0
        code = self.process.poll()
        reason = f"timeout after {timeout:g} s" if not ready else f"DEFECT the worker ended with {code}"
        return failed | {"error": reason, "seconds": timeout if not ready else ""}

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def chosen(options: argparse.Namespace) -> Iterator[str]:
    from lipaudit.cli.listing import model_names

    names = options.names or [
        name
        for name in model_names().matching("*")
        if options.library in ("all", name.partition(":")[0]) and fnmatchcase(name.partition(":")[2], options.pattern)
    ]
    part, parts = map(int, options.part.split("/"))
    yield from names[part - 1 :: parts]


def run(options: argparse.Namespace) -> None:
    done = {row["model"] for row in rows_of(options.file)}
    fresh = not options.file.exists()
    arguments = ["--max-params", str(options.max_params), *(["--full"] if options.full else [])]
    worker: Worker | None = None
    with options.file.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        if fresh:
            writer.writeheader()
        try:
            for spec in chosen(options):
                if spec in done:
                    continue
                if worker is None or worker.left == 0:
                    if worker is not None:
                        worker.stop()
                    worker = Worker(arguments)
                row = worker.examine(spec, options.timeout)
                writer.writerow(row)
                stream.flush()
                print(spec, row.get("status_global") or row.get("error"), row.get("seconds"), flush=True)
        finally:
            if worker is not None:
                worker.stop()


def parse_counts(text: str) -> Iterator[str]:
    """The names in ``name:count; name:count``."""
    for part in filter(None, text.split("; ")):
        yield part.rpartition(":")[0]


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def summarise(path: Path) -> None:
    rows = [row for row in rows_of(path) if row["error"] != SKIPPED]
    for library in ("timm", "torchvision"):
        part = [row for row in rows if row["model"].startswith(f"{library}:")]
        if not part:
            continue
        captured = [row for row in part if row["captured"] == "yes"]
        families = {row["family"] for row in part}
        print(f"{library}: {len(part)} models of {len(families)} families, {len(captured)} captured")
        for domain in ("global", "pixels"):
            counts = Counter(row[f"status_{domain}"].partition(":")[0] for row in captured)
            print(
                f"  {domain}: " + ", ".join(f"{status or 'not run'} {count}" for status, count in counts.most_common())
            )
        seconds = sorted(float(row["cpu_seconds"]) for row in captured)
        ninth = seconds[int(0.9 * len(seconds))] if seconds else 0.0
        peak = max((int(row["peak_memory_mb"] or 0) for row in captured), default=0)
        print(f"  CPU seconds: median {median(seconds):.1f}, 90 % below {ninth:.1f}; peak memory {peak} MB")
        for row in part:
            if row["captured"] != "yes":
                print(f"  not captured: {row['model']}: {row['error']}")
    for column in ("unsupported_reasons", "unbounded"):
        models: dict[str, list[str]] = {}
        for row in rows:
            for name in dict.fromkeys(parse_counts(row[column])):
                models.setdefault(name, []).append(row["model"])
        print(f"{column}, by number of models:")
        for name, where in sorted(models.items(), key=lambda item: -len(item[1])):
            print(f"  {len(where):5d}  {name}, for example {where[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=Path("coverage.csv"))
    parser.add_argument("--structure", action="store_true", help="without weights (the default)")
    parser.add_argument("--full", action="store_true", help="with random weights and all norms")
    parser.add_argument("--names", nargs="+", metavar="LIBRARY:NAME", help="these models alone")
    parser.add_argument("--library", choices=["timm", "torchvision", "all"], default="all")
    parser.add_argument("--pattern", default="*", help="names that match, without the library")
    parser.add_argument("--max-params", type=float, default=0, help="skip larger models (0: none)")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th name from the I-th on")
    parser.add_argument("--timeout", type=float, default=600, help="seconds per model")
    parser.add_argument("--summary", action="store_true", help="print what the file says and run nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.structure and options.full:
        parser.error("--structure and --full exclude each other")
    if options.worker:
        work(options.full, options.max_params)
    elif options.summary:
        summarise(options.file)
    else:
        run(options)


if __name__ == "__main__":
    main()
