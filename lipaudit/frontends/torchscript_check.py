"""What a TorchScript archive may contain before torch is allowed to read it.

Its code is a subset of Python that torch's own interpreter runs, never Python itself. It is read here as text first, and refused where it
names an operation outside of ``aten`` and ``prim``, one that touches files, or a loop that may never end.
"""

from __future__ import annotations

import ast
import re
import zipfile
import zlib
from pathlib import Path

from lipaudit.errors import ModelLoadError

_CODE = re.compile(r"[^/]+/code/.+\.py")
_NAMESPACES = ("aten", "prim", "prims")
_FILES = re.compile(r"(^|_)(file|save|load|open|read|write)(_|$)")
# a loop of more turns than this is no network
_MOST_TURNS = 1_000_000
_LARGEST = 2**26  # bytes of code


def is_torchscript(path: Path) -> bool:
    """Whether a file is an archive that ``torch.jit.save`` wrote."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(_CODE.fullmatch(name) or name.endswith("/constants.pkl") for name in names)


def check_archive(path: Path) -> None:
    """Raise :class:`ModelLoadError` unless every line of code in the archive is harmless."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if _CODE.fullmatch(entry.filename)]
            if sum(entry.file_size for entry in entries) > _LARGEST:
                raise ModelLoadError(f"{path} holds more than {_LARGEST >> 20} MiB of code: refused")
            for entry in entries:
                _check_code(path, entry.filename, archive.read(entry).decode("utf-8"))
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError, NotImplementedError) as error:
        raise ModelLoadError(f"{path} is damaged ({error}): export it again") from error


def _check_code(path: Path, name: str, code: str) -> None:
    try:
        tree = ast.parse(code)
        objection = next((reason for node in ast.walk(tree) if (reason := _objection(node))), "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        objection = "code that cannot be read"
    if objection:
        raise ModelLoadError(
            f"{path} is refused, nothing was executed: {name} holds {objection}; export the model with torch.export.save"
        )


def _objection(node: ast.AST) -> str:
    """What is wrong with a piece of code; empty where nothing is."""
    if isinstance(node, ast.While):
        return "a loop that may never end (while)"
    if isinstance(node, ast.Import | ast.ImportFrom):
        return ""  # the interpreter's own way to name classes of the same archive
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        first, *rest = called.split(".")
        if first == "ops" and rest and rest[0] not in _NAMESPACES:
            return f"the operation {called[:80]}, outside of aten and prim"
        if first in ("ops", "torch") and rest and _FILES.search(rest[-1]):
            return f"the operation {called[:80]}, which touches files"
        if called == "range" and any(isinstance(a, ast.Constant) and _is_long(a.value) for a in node.args):
            return "a loop of too many turns"
    return ""


def _is_long(value: object) -> bool:
    return isinstance(value, int) and abs(value) > _MOST_TURNS
