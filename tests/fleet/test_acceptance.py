"""A fleet of forty models, killed halfway and resumed, and on a cluster: as long as it takes (``pytest -m long``)."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.fleet.dask_cluster import Cluster, settled
from tests.fleet.fleets import Fleet, kept, lipaudit
from tests.places import ROOT

SHARED = ROOT.parent / "shared" / "models"
SHAPES = [
    *(
        "byobnet",
        "coatnet",
        "convnext",
        "convnext2",
        "convnext3",
        "efficientnet",
        "efficientnet_evos",
        "efficientnet_gn",
    ),
    *("efficientnet_ln", "mambaout", "maxvit", "nfnet", "resnet", "vit", "vit2", "vit3", "vit4"),
]
OURS = [
    "sample_models/*.onnx",
    "sample_models/digits_se.onnx --domain pixels --mean 0 --std 1",
    "sample_models/digits_resnet.safetensors --arch sample_models.models:digits_resnet --input 1x16x16",
]
THEIRS = [
    "yunet/yunet_n_320_320.onnx",
    "fastestdet/FastestDet.onnx",
    "ultraface/version-RFB-320_simplified.onnx",
    "vnncomp/resnet_2b.onnx",
    "vnncomp/cifar_base_kw.onnx",
    "mtcnn/pnet.pt --arch tests.models.shared_architectures:PNet --input 3x24x24",
    "mtcnn/rnet.pt --arch tests.models.shared_architectures:RNet --input 3x24x24",
    "mtcnn/onet.pt --arch tests.models.shared_architectures:ONet --input 3x48x48",
    "vnncomp/resnet2b.pth --arch tests.models.shared_architectures:ResNet2b --input 3x32x32",
    "cifar_resnet/resnet20-12fca82f.th --arch tests.models.cifar_resnet20:ResNet20 --input 3x32x32",
]
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def forty(folder: Path) -> list[str]:
    """Lines of a list; models that are not there are left out."""
    whole = (ROOT / "sample_models/digits_resnet.onnx").read_bytes()
    for name, data in (("empty.onnx", b""), ("cut.onnx", whole[: len(whole) // 2]), ("text.pt2", b"no program")):
        (folder / name).write_bytes(data)
    shapes = [f"timm:test_{name} --weights random" for name in SHAPES]
    structures = ["resnet50 --structure", "timm:vit_tiny_patch16_224 --structure"]
    broken = [str(folder / name) for name in ("empty.onnx", "cut.onnx", "text.pt2")]
    theirs = [f"{SHARED}/{line}" for line in THEIRS] if SHARED.is_dir() else []
    return [*shapes[:9], *OURS, *broken, *theirs, *structures, *shapes[9:]]


class Memory:
    """The memory of a command and of its workers, in MiB, watched until the command ends."""

    def __init__(self, process: subprocess.Popen[str], record: Path) -> None:
        self.samples: list[tuple[int, float, float]] = []  # outcomes so far, the command's own, the largest worker's
        self._process, self._record = psutil.Process(process.pid), record
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE:
            try:
                own, *workers = [
                    process.memory_info().rss / 2**20
                    for process in (self._process, *self._process.children(recursive=True))
                ]
                done = self._record.read_bytes().count(b"\n") if self._record.exists() else 0
                self.samples.append((done, own, max(workers, default=0.0)))
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.2)

    def finish(self) -> None:
        self._thread.join()

    def growth(self, start: int) -> tuple[float, float]:
        """By how much the command, and the largest of its workers, exceeded later what they had taken for ``start`` outcomes."""
        early = [sample for sample in self.samples if sample[0] <= start]
        late = [sample for sample in self.samples if sample[0] > start]
        own, worker = (max(s[column] for s in late) - max(s[column] for s in early) for column in (1, 2))
        return own, worker


def test_forty_models_survive_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    fleet, other = Fleet(tmp_path), Fleet(tmp_path / "undisturbed")
    models = fleet.list("\n".join(forty(tmp_path)) + "\n")
    args = ["--models-from", str(models), "--jobs", "2", "--format", "json"]
    count = 40 if SHARED.is_dir() else 30

    undisturbed = lipaudit(*args, "-o", str(other.record))
    memory = Memory(undisturbed, other.record)
    expected, _ = undisturbed.communicate()
    memory.finish()
    assert undisturbed.returncode == 3
    rows = json.loads(expected)["models"]
    assert len(rows) == len(other.entries()) == count
    failed = [Path(row["spec"]).name for row in rows if row["status"] == "failed"]
    assert failed == ["empty.onnx", "cut.onnx", "text.pt2"]

    running = lipaudit(*args, "-o", str(fleet.record))
    fleet.wait_for(count // 2)
    running.kill()
    running.communicate()
    done = sum(entry["status"] == "done" for entry in fleet.entries())
    assert count // 2 - 3 <= done < count - 3
    resumed = lipaudit(*args, "-o", str(fleet.record))
    found, err = resumed.communicate()
    assert f"{done} of {count} models are done" in err
    assert found == expected
    assert [kept(entry) for entry in fleet.entries()] == [kept(entry) for entry in other.entries()]

    own, worker = memory.growth(count // 2)
    assert own < 100
    assert worker < 400


def test_forty_models_on_a_cluster_are_those_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    far, near = Fleet(tmp_path / "far"), Fleet(tmp_path / "near")
    models = far.list("\n".join(forty(tmp_path)) + "\n")
    args = ["--models-from", str(models), "--format", "json"]
    local = lipaudit(*args, "--jobs", "2", "-o", str(near.record))
    expected, _ = local.communicate()
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        running = lipaudit(*args, "--cluster", cluster.address, "-o", str(far.record))
        far.wait_for(len(near.entries()) // 2)
        cluster.workers()[0].kill()
        found, err = running.communicate()
    finally:
        cluster.stop()
    assert (running.returncode, local.returncode) == (3, 3), err
    assert list(map(settled, far.entries())) == list(map(settled, near.entries()))
    assert json.loads(found)["models"] == json.loads(expected)["models"]
