"""Networks for fleets: small ones, and ones that misbehave in the process that audits them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

LOG = "LIPAUDIT_TEST_LOG"  # the file in which `leaking` notes the process and its memory
LEAK = 60  # MiB
_leaked: list[torch.Tensor] = []


def tiny() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def dense() -> nn.Module:
    """Three layers, of which a search finds less than the product."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))


def wide() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2))


def slow() -> nn.Module:
    time.sleep(1.5)
    return wide()


def sleeping() -> nn.Module:
    time.sleep(3600)
    return tiny()


def killed() -> nn.Module:
    os.kill(os.getpid(), signal.SIGKILL)
    return tiny()


def killing_the_parent() -> nn.Module:
    """For a worker of a cluster, whose child runs this."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    os.kill(parent.pid, signal.SIGKILL)
    return sleeping()


def forking() -> nn.Module:
    """Leaves a copy of the process behind, with its end of the connection, and dies."""
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    return tiny()


def starting() -> nn.Module:
    """Starts a process of its own, whose number it notes, and goes on for long."""
    child = subprocess.Popen(["sleep", "3600"])
    Path(os.environ[LOG]).write_text(str(child.pid), encoding="utf-8")
    return sleeping()


def holding_the_interpreter() -> nn.Module:
    """No thread of the process runs meanwhile."""
    Path(os.environ[LOG]).write_text("began", encoding="utf-8")
    ctypes.PyDLL(None).sleep(3600)
    return tiny()


def meddling() -> nn.Module:
    """Changes what other audits of the same process would see."""
    os.chdir("/")
    os.environ.clear()
    sys.path.remove("")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    nn.Conv2d.forward = None  # type: ignore[assignment,method-assign]
    return nn.Sequential(nn.Linear(6, 2, device="cpu"))


def crashing() -> nn.Module:
    os.kill(os.getpid(), signal.SIGSEGV)
    return tiny()


def exiting() -> nn.Module:
    sys.exit(7)


def leaving() -> nn.Module:
    os._exit(9)


def defective() -> nn.Module:
    return nn.Sequential(_Raises())


def talking() -> nn.Module:
    os.write(1, b"this must not reach stdout\n")
    print("nor this")
    return tiny()


def leaking() -> nn.Module:
    """Every audit keeps memory that the process does not get back."""
    _leaked.append(torch.ones(LEAK * 2**18))
    resident = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    with open(os.environ[LOG], "a", encoding="utf-8") as log:
        log.write(f"{os.getpid()} {int(resident.split()[1]) // 1024}\n")
    return tiny()


class _Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("a network that cannot run")
