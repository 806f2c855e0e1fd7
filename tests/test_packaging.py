"""What is shipped: the wheel's contents and metadata, a light import, the changelog and the extras."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

import lipaudit
from tests.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_wheel_holds_the_whole_package_and_nothing_else(wheel):
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lipaudit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == sources


@pytest.mark.parametrize(
    "name",
    [
        "lipaudit/py.typed",
        "lipaudit/records/schemas/report-1.0.schema.json",
        "lipaudit/formats/html/templates/report.html",
        "lipaudit/text/published_methods.json",
    ],
)
def test_wheel_holds_the_data_files(wheel, name):
    assert name in wheel.namelist()


def test_wheel_states_version_licence_and_python(wheel):
    fields = metadata(wheel)
    assert fields["Name"] == "lipaudit"
    assert fields["Version"] == lipaudit.__version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


def test_wheel_has_no_upper_caps_and_no_addresses_in_its_requirements(wheel):
    requirements = metadata(wheel).get_all("Requires-Dist")
    assert any(requirement.startswith("torch>=") for requirement in requirements)
    assert [entry for entry in requirements if re.search(r"<|==|~=|@|://", entry.split(";")[0])] == []


def test_wheel_installs_the_command(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "lipaudit = lipaudit.__main__:run" in wheel.read(name).decode()


def test_importing_the_package_leaves_torch_alone():
    code = "import sys, lipaudit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_changelog_has_an_entry_for_this_version():
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(lipaudit.__version__)}\b", changelog, flags=re.MULTILINE)


def test_extras_cover_what_the_ci_calls():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {re.split(r"[><=\[]", requirement)[0] for requirement in extras["test"] + extras["docs"]}
    assert {"pytest", "ruff", "mypy", "import-linter", "sphinx", "build", "hatchling"} <= names
