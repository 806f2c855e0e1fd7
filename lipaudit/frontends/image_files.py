"""Which files a folder of images has, without reading any of them."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
LABELS_FILE = "labels.csv"


def pictures(folder: Path) -> list[Path]:
    """The image files of a folder by name, hidden ones left out."""
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and not f.name.startswith("."))


def class_folders(folder: Path) -> dict[str, list[Path]]:
    """The folders in a folder that hold images, by name."""
    inner = {f.name: pictures(f) for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith(".")}
    return {name: files for name, files in inner.items() if files}


def pictures_below(folder: Path) -> list[Path]:
    """The image files of a folder and of the folders in it."""
    return [*pictures(folder), *(file for files in class_folders(folder).values() for file in files)]


def files_of(text: str) -> list[str]:
    """The files that stand behind a user's images: the file itself, or those of the folder that are read."""
    folder = Path(text).expanduser()
    if not folder.is_dir():
        return [text]
    files = pictures_below(folder)
    labels = folder / LABELS_FILE
    return [str(file) for file in (*files, *([labels] if labels.is_file() else []))]
