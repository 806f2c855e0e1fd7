"""From what the user typed to a loaded model."""

from lipaudit.frontends.load import load
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.registry import expand, list_models
from lipaudit.frontends.spec import parse_input

__all__ = ["LoadedModel", "Preprocessing", "expand", "list_models", "load", "parse_input"]
