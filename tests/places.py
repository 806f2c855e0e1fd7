"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SAMPLES = ROOT / "sample_models"
SHARED_MODELS = ROOT.parent / "shared" / "models"
"""Trained models beside the checkout; tests that need them are skipped where the folder is missing."""
