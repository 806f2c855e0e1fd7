"""TorchScript as objects and as archives, exported programs and compiled modules as objects."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.frontends.torchscript_check import check_archive

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning")
IMAGE = (1, 3, 8, 8)


class Net(nn.Module):
    """Parameters of its own and of children, an optional argument, a mode, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head, self.shift = nn.Linear(256, 3), nn.Parameter(torch.ones(3))
        with torch.no_grad():
            self.body[1].running_var.fill_(0.5)

    def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        y = self.head(self.body(x)) + self.shift
        if twice:
            y = y * 2
        return nn.functional.dropout(y, 0.5, self.training)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if bool(x.sum() > 0) else 2 * x


class While(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = 0
        while i < x.shape[1]:
            i += 1
        return x * i


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return Net().eval()


@pytest.fixture(scope="module")
def want(net: nn.Module) -> float:
    found = lipaudit.audit(net, IMAGE[1:]).network.upper_bound
    assert found is not None
    return found


def _script(net: nn.Module, kind: str) -> torch.jit.ScriptModule:
    made = torch.jit.trace(net, torch.rand(IMAGE)) if "trace" in kind else torch.jit.script(net)
    return torch.jit.freeze(made, optimize_numerics=False) if "frozen" in kind else made


@pytest.mark.parametrize("kind", ["trace", "script", "frozen trace", "frozen script"])
@pytest.mark.parametrize("place", ["object", "script.pt", "script.ts"])
def test_torchscript_is_the_module_that_it_was_made_from(
    net: nn.Module, want: float, tmp_path: Path, kind: str, place: str
) -> None:
    script: object = _script(net, kind)
    if place != "object":
        torch.jit.save(script, tmp_path / place)
        script = str(tmp_path / place)
    report = lipaudit.audit(script, {"x": IMAGE}, lower_bound=True)
    assert report.network.upper_bound == pytest.approx(want, rel=1e-6)
    assert report.network.lower_bound is not None
    assert report.network.lower_bound <= want
    if "frozen" not in kind:
        assert report.model.num_parameters == sum(p.numel() for p in net.parameters())
        assert report.model.unused_parameters == ()
    assert report.model.source == ("module" if place == "object" else "torchscript")


def test_arguments_of_torchscript(net: nn.Module, want: float) -> None:
    script = torch.jit.script(net)
    assert lipaudit.audit(script, {"x": IMAGE}, fix={"twice": True}).network.upper_bound == pytest.approx(
        2 * want, rel=1e-6
    )
    with pytest.raises(UsageError, match="no input named 'y': its inputs are 'x', 'twice'"):
        lipaudit.audit(script, {"y": IMAGE})
    with pytest.raises(UsageError, match="size of input 'x' is not known"):
        lipaudit.audit(script)


def test_a_scripted_module_is_left_as_it_was(net: nn.Module) -> None:
    script = torch.jit.script(Net().train())
    before = {name: (id(p), p.clone()) for name, p in script.named_parameters()}
    lipaudit.audit(script, IMAGE[1:])
    assert script.training
    assert all(torch.equal(p, before[name][1]) for name, p in script.named_parameters())


def test_what_torchscript_reads_of_its_input_gives_no_figure() -> None:
    report = lipaudit.audit(torch.jit.script(Branch()), {"x": (1, 4)})
    assert report.network.status == "unsupported"
    dropout = torch.jit.trace(nn.Dropout(), torch.ones(1, 4), check_trace=False)  # in training mode, for good
    report = lipaudit.audit(dropout, {"input": (1, 4)})
    assert (report.network.status, report.network.upper_bound) == ("unsupported", None)
    assert "random numbers" in report.network.reasons[0]


def _changed(path: Path, old: str, new: str) -> None:
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data.replace(old.encode(), new.encode()) if name.endswith(".py") else data)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ('torch.from_file("/etc/passwd")', "which touches files"),
        ("ops.aten.save(x)", "which touches files"),
        ("ops.custom.relu(x)", "outside of aten and prim"),
        ("(" * 3000 + "x" + ")" * 3000, "cannot be read"),
        ("torch.relu(", "cannot be read"),
    ],
)
def test_code_that_is_refused(tmp_path: Path, new: str, message: str) -> None:
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(nn.ReLU()), path)
    check_archive(path)
    _changed(path, "__torch__.torch.nn.functional.relu(input, False, )", new)
    with pytest.raises(ModelLoadError, match=message):
        lipaudit.audit(str(path), {"input": (1, 4)})


def test_loops_that_may_not_end(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(While()), tmp_path / "while.ts")
    with pytest.raises(ModelLoadError, match="may never end"):
        lipaudit.audit(str(tmp_path / "while.ts"), {"x": (1, 4)})


def test_files_that_are_no_torchscript(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "weights.ts")
    (tmp_path / "text.ts").write_text("export const a = 1")
    for name in ("weights.ts", "text.ts"):
        with pytest.raises(ModelLoadError, match="no TorchScript archive"):
            lipaudit.audit(str(tmp_path / name))
    path = tmp_path / "cut.pt"
    torch.jit.save(torch.jit.script(nn.ReLU()), path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            if not name.endswith("/data.pkl"):
                archive.writestr(name, data)
    with pytest.raises(ModelLoadError, match="cannot be read by torch"):
        lipaudit.audit(str(path), {"input": (1, 4)})


@pytest.mark.parametrize("kind", ["program", "decomposed", "module", "compiled", "traced by fx"])
def test_exported_and_compiled_objects(net: nn.Module, want: float, kind: str) -> None:
    program = torch.export.export(net, (torch.rand(IMAGE),)) if kind in ("program", "decomposed", "module") else None
    thing = {
        "program": lambda: program,
        "decomposed": lambda: program and program.run_decompositions(),
        "module": lambda: program and program.module(),
        "compiled": lambda: torch.compile(net),
        "traced by fx": lambda: torch.fx.symbolic_trace(net, {"twice": False}),
    }[kind]()
    report = lipaudit.audit(thing, {"x": IMAGE}, lower_bound=True)  # type: ignore[arg-type]
    assert report.network.upper_bound == pytest.approx(want, rel=1e-6)
    if kind in ("program", "decomposed"):
        assert lipaudit.audit(program).network.upper_bound == pytest.approx(want, rel=1e-6)  # type: ignore[arg-type]


def test_a_program_of_training_mode_is_refused() -> None:
    program = torch.export.export(nn.BatchNorm2d(3).train(), (torch.rand(IMAGE),))
    for thing in (program, program.module()):
        with pytest.raises(ModelLoadError, match="in training mode"):
            lipaudit.audit(thing, {"input": IMAGE})


class Copies(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.expand(50_000, 50_000) * 2).amax(0, keepdim=True)[:, :1]


def test_archives_that_ask_for_much_memory_are_refused(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Copies()), tmp_path / "net.pt")
    with pytest.raises(ModelLoadError, match=r"would need about 10GB of memory"):
        lipaudit.audit(str(tmp_path / "net.pt"), {"x": (1, 1)})
