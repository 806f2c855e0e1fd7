"""What an exported program (.pt2) may contain before torch is allowed to read it.

``torch.export.load`` unpickles whatever asks for it, resolves operators by dotted names, evaluates symbolic expressions as
Python and imports types named in tree specifications. So the archive is read as plain data first, and everything but the
following is refused: the entries that ``torch.export.save`` writes, by their exact names; tensors stored as raw bytes;
operators of the ``aten``, ``prims`` and ``higher_order`` namespaces without those that touch files; names that are
identifiers; arithmetic over integer symbols; built-in containers. Guards are source code too: nothing here ever runs them.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
# of a formula, and of the numbers that come up while it is evaluated
_LONGEST, _MOST_BITS = 10_000, 4096
_SYMBOL = re.compile(r"[suz][0-9]+|zuf[0-9]+|oo|int_oo")
_FREE_TEXT = {"metadata", "as_string", "expr_str", "target", "in_spec", "out_spec", "torch_version", "guards_code"}
_CONTAINERS = {"builtins.list", "builtins.tuple", "builtins.dict", "collections.OrderedDict", None}
_MODEL, _SAMPLE_INPUTS = "models/model.json", "data/sample_inputs/model.pt"
_PAYLOAD = re.compile(r"(weight|tensor)_[0-9]+")
_ENTRY = re.compile(
    r"models/model\.json|data/sample_inputs/model\.pt|archive_format|archive_version|byteorder|"
    r"data/weights/(weight_[0-9]+|model_weights_config\.json)|data/constants/(tensor_[0-9]+|model_constants_config\.json)|"
    r"\.data/(version|serialization_id)|\.format_version|\.storage_alignment"
)
_EXTRA = re.compile(r"extra/[a-z0-9_.\-/]+")
_COMPILED = (".so", ".o", ".cubin", ".cpp", ".py", ".pyd", ".dll")


def checked_archive(path: Path) -> io.BytesIO:
    """A fresh archive in memory that holds what was checked and nothing else, for ``torch.export.load``.

    Torch finds entries whatever their case and reads the first of several with one name, so only the exact names that
    ``torch.export.save`` writes are accepted, below one root and each once. JSON documents are written anew from what was
    checked. Sample inputs are a pickle that loading does not need: an empty entry takes their place.
    Raises :class:`ModelLoadError`, saying what was found, unless the archive holds plain data alone.
    """
    if not zipfile.is_zipfile(path):
        raise ModelLoadError(f"{path} is not an exported program (a zip archive) or is truncated: export it again")
    fresh = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(fresh, "w") as target:
            known = _known_entries(path, archive)
            # entries may lie over each other: a short file then stands for a long one
            if sum(entry.file_size for entry in known.values()) > path.stat().st_size:
                raise ModelLoadError(f"{path} holds entries that are larger than the file: refused")
            for name, entry in known.items():
                content = b"" if name == _SAMPLE_INPUTS else archive.read(entry)
                if name.endswith(".json"):
                    content = json.dumps(_checked_document(path, name, content)).encode()
                target.writestr(f"program/{name}", content)
    except (zipfile.BadZipFile, zlib.error, EOFError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"{path} is damaged ({error}): export it again") from error
    except RecursionError:
        raise ModelLoadError(f"{path} is refused: its description nests without measure") from None
    fresh.seek(0)
    return fresh


def _known_entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The archive's entries by their names below its root."""
    entries: dict[str, zipfile.ZipInfo] = {}
    roots, folded = set(), set()
    for entry in archive.infolist():
        root, _, name = entry.filename.partition("/")
        roots.add(root)
        if entry.filename.casefold() in folded:
            raise ModelLoadError(f"{path} holds {entry.filename!r} twice (up to the case of its letters): refused")
        folded.add(entry.filename.casefold())
        if name.startswith("data/aotinductor/") or name.endswith(_COMPILED):
            raise ModelLoadError(
                f"{path} holds compiled code ({entry.filename}): refused; save the exported program without it"
            )
        if _EXTRA.fullmatch(name):
            continue  # texts of the user's own, which nothing here reads
        if not _ENTRY.fullmatch(name):
            raise ModelLoadError(
                f"{path} holds {entry.filename!r}, which torch.export.save of torch 2.9 or later does not write: refused, "
                "nothing was executed; export it again"
            )
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ModelLoadError(f"{path} holds {entry.filename!r} compressed: refused; export it again")
        entries[name] = entry
    if len(roots) != 1:
        raise ModelLoadError(f"{path} holds entries below {len(roots)} folders instead of one: refused")
    if _MODEL not in entries:
        raise ModelLoadError(
            f"{path} holds no model in today's format of torch.export.save: export it again with torch 2.9 or later"
        )
    return entries


def _checked_document(path: Path, name: str, content: bytes) -> Any:
    document = json.loads(content.decode("utf-8"))
    if name == _MODEL:
        _check_json(path, document, "")
    else:
        _check_payloads(path, name, document)
    return document


def _check_payloads(path: Path, name: str, document: Any) -> None:
    for entry in document["config"].values():
        file = entry["path_name"]
        if not isinstance(file, str) or not _PAYLOAD.fullmatch(file):
            raise ModelLoadError(f"{path} refers to the payload {file!r} in {name}, which is no plain tensor: refused")
        if entry.get("use_pickle") is not False:
            raise ModelLoadError(
                f"{path} holds the tensor {file} as a pickle, which may need code to load: refused, nothing was executed; "
                "export the model with plain dense tensors"
            )


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
    if len(text) > _LONGEST:
        return False
    try:
        tree = ast.parse(text, mode="eval")
        if _bits(tree.body) > _MOST_BITS:
            return False
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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


def _bits(node: ast.AST) -> int:
    """How long, at most, the numbers get that come up while a formula is evaluated; a symbol counts as 64 bits.

    >>> _bits(ast.parse("3 * 5", mode="eval").body), _bits(ast.parse("9**9**9", mode="eval").body) > _MOST_BITS
    (7, True)
    """
    if isinstance(node, ast.Constant):
        return node.value.bit_length() if isinstance(node.value, int) else 64
    if isinstance(node, ast.Name):
        return 64
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _power(node.left, node.right)
    if not isinstance(node, ast.Call):
        return sum(map(_bits, ast.iter_child_nodes(node))) + 1
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Name) and node.func.id == "Pow":
        return _power(arguments[0], arguments[1]) if len(arguments) == 2 else _MOST_BITS + 1
    return sum(map(_bits, arguments)) + 1


def _power(base: ast.expr, exponent: ast.expr) -> int:
    number = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent
    if not isinstance(number, ast.Constant) or not isinstance(number.value, int):
        return _MOST_BITS + 1
    return (_bits(base) + 1) * max(1, number.value)


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
