"""From what the user typed to a loaded model."""

from lipaudit.frontends.load import load
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.registry import expand, registry_names
from lipaudit.frontends.spec import parse_input

__all__ = ["LoadedModel", "Preprocessing", "expand", "load", "parse_input", "registry_names"]
