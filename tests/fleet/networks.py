"""Networks for fleets: small ones, and ones that misbehave in the process that audits them."""

from __future__ import annotations

import os
import signal
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
