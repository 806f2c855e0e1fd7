"""What an exported program (.pt2) may contain before torch is allowed to read it.

``torch.export.load`` unpickles whatever asks for it, resolves operators by dotted names, evaluates symbolic expressions as
Python and imports types named in tree specifications. So the archive is read as plain data first, and everything but the
following is refused: tensors stored as raw bytes or loadable with ``weights_only=True``; operators of the ``aten``, ``prims``
and ``higher_order`` namespaces without those that touch files; names that are identifiers; arithmetic over integer symbols;
built-in containers. Guards are source code too: nothing here ever runs them.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from lipaudit.errors import ModelLoadError

_TARGET = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)(\.[A-Za-z][A-Za-z0-9_]*){1,2}|torch\.ops\.(aten|prims)\.(_\w+)\.\w+"
)
_PYTHON_TARGET = re.compile(
    r"_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_)|"
    r"math\.(ceil|floor|trunc|sqrt)|torch\.sym_(int|float|max|min|not|ite|sum)|torch\._sym_sqrt"
)
_FORBIDDEN = re.compile(r"\.(from_file|save|load|open|read_file|write_file)(\.|$)")
_NAME = re.compile(r"[\w.\-+ ]*")
_SYMBOLIC_CALLS = {
    *("Symbol", "Integer", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "PythonMod", "FloorDiv", "CleanDiv"),
    *("CeilDiv", "floor", "ceiling", "Abs", "And", "Or", "Not", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "true", "false"),
    *("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"),
}
_SYMBOL = re.compile(r"[suz][0-9]+|zuf[0-9]+|oo|int_oo")
_FREE_TEXT = {"metadata", "as_string", "expr_str", "target", "in_spec", "out_spec", "torch_version", "guards_code"}
_CONTAINERS = {"builtins.list", "builtins.tuple", "builtins.dict", "collections.OrderedDict", None}
_PICKLED_PAYLOADS = ("custom_obj", "opaque_obj")


def check_archive(path: Path) -> None:
    """Raise :class:`ModelLoadError`, saying what was found, unless the archive holds plain data alone."""
    if not zipfile.is_zipfile(path):
        raise ModelLoadError(f"{path} is not an exported program (a zip archive) or is truncated: export it again")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/")]
            if not any("/models/" in n and n.endswith(".json") for n in names):
                raise ModelLoadError(
                    f"{path} holds no model in today's format of torch.export.save: export it again with torch 2.9 or later"
                )
            for name in names:
                _check_entry(path, archive, name)
    except (zipfile.BadZipFile, zlib.error, EOFError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"{path} is damaged ({error}): export it again") from error


def _check_entry(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    if "/aotinductor/" in name or name.endswith((".so", ".o", ".cubin", ".cpp", ".py", ".pyd", ".dll")):
        raise ModelLoadError(f"{path} holds compiled code ({name}): refused; save the exported program without it")
    inside = name.partition("/")[2]
    if inside.startswith("data/"):
        base = name.rpartition("/")[2]
        if base.startswith(_PICKLED_PAYLOADS):
            raise ModelLoadError(
                f"{path} holds a pickled object ({name}) that needs code to load: refused, nothing was executed"
            )
        content = archive.read(name)
        if base.endswith("_config.json"):
            _check_payloads(path, archive, name, json.loads(content))
        elif base.endswith(".pt"):
            _check_pickle(path, name, content)
    elif inside.startswith("models/"):
        _check_json(path, json.loads(archive.read(name)), "")


def _check_payloads(path: Path, archive: zipfile.ZipFile, name: str, document: Any) -> None:
    for entry in document["config"].values():
        file = str(entry["path_name"])
        if "/" in file or "\\" in file or file.startswith(_PICKLED_PAYLOADS):
            raise ModelLoadError(f"{path} refers to the payload {file!r} in {name}: refused")
        if entry.get("use_pickle"):
            member = f"{name.rpartition('/')[0]}/{file}"
            _check_pickle(path, member, archive.read(member))


def _check_pickle(path: Path, name: str, content: bytes) -> None:
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ModelLoadError(
            f"{path} holds {name}, which needs Python code to load: refused, nothing in it was executed"
        ) from error


def _check_json(path: Path, value: Any, key: str) -> None:
    for found_key, text in _strings(value, key):
        reason = _objection(found_key, text)
        if reason:
            raise ModelLoadError(f"{path} is refused: {reason} ({text[:80]!r})")


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every string of a JSON document with the key it stands under; keys themselves come as values of the key ``name``."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part, key)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield "name", name
            if name == "metadata" and key != "graph_module":
                continue  # stack traces and module paths, kept as text by torch
            yield from _strings(part, name)


def _objection(key: str, text: str) -> str:
    if key == "target":
        plain = _TARGET.fullmatch(text) or _PYTHON_TARGET.fullmatch(text)
        allowed = not text or (plain and not _FORBIDDEN.search(text)) or ("." not in text and text.isidentifier())
        return "" if allowed else "an operator outside of aten and prims"
    if key == "expr_str":
        return "" if _is_arithmetic(text) else "a symbolic expression that is not arithmetic"
    if key in ("in_spec", "out_spec"):
        return "" if not text or _is_plain_tree(json.loads(text)) else "a tree of other than built-in containers"
    if key in _FREE_TEXT:
        return ""
    return "" if _NAME.fullmatch(text) else "a name that is not an identifier"


def _is_arithmetic(text: str) -> bool:
    allowed = (
        ast.Expression,
        ast.keyword,
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.operator,
        ast.unaryop,
        ast.cmpop,
        ast.Load,
    )
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, int | float) and not _SYMBOL.fullmatch(str(node.value)):
                return False
        elif isinstance(node, ast.Name):
            if not (_SYMBOL.fullmatch(node.id) or node.id in _SYMBOLIC_CALLS):
                return False
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _SYMBOLIC_CALLS:
                return False
        elif not isinstance(node, allowed):
            return False
    return True


def _is_plain_tree(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain_tree(part) for part in value)
    if isinstance(value, dict):
        if "type" in value and value["type"] not in _CONTAINERS:
            return False
        context = value.get("context")
        names = re.findall(r'"((?:[^"\\]|\\.)*)"', context) if isinstance(context, str) else []
        return all(_NAME.fullmatch(n) for n in names) and all(
            _is_plain_tree(v) for k, v in value.items() if k not in ("type", "context")
        )
    return value is None or isinstance(value, int)
