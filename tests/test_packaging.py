"""What is shipped: the wheel's contents and metadata, a light import, and a README that tells the truth."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

import lipaudit
from lipaudit.cli import cli
from tests.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("name", ["lipaudit/py.typed", "lipaudit/records/schemas/report-1.0.schema.json"])
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


def test_readme_has_two_commands_that_set_everything_up():
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv ")]
    assert [command.split("&& ")[-1] for command in commands] == [
        ".venv/bin/lipaudit sample_models/digits_resnet.onnx",
        ".venv/bin/pytest",
    ]
    assert all("pip install" in command for command in commands)


def test_readme_shows_what_the_first_command_prints(capsys):
    from lipaudit.cli import main

    shown, _ = re.findall(r"^```text\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    assert main(["sample_models/digits_resnet.onnx"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()[: len(shown.splitlines())]
    for expected, line in zip(shown.splitlines(), lines, strict=True):
        words, found = expected.split(), line.split()
        if expected.startswith("/"):  # a row ends in lower, upper, ratio, share; the last digits may differ by machine
            assert found[:-4] == words[:-4]
            assert float(found[-3]) == pytest.approx(float(words[-3]), rel=2e-3)
        else:
            assert [w for w in found if not re.search(r"\d\.\d", w)] == [
                w for w in words if not re.search(r"\d\.\d", w)
            ]


def test_readme_names_only_files_that_exist():
    named = re.findall(r"\bsample_models/[\w.]+\w", README) + re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_readme_shows_only_options_that_the_command_has():
    lines = re.findall(r"^(?:.*&& \.venv/bin/)?lipaudit ([^#\n]*)", README, flags=re.MULTILINE)
    used, unknown = set(), set()
    for verb, *words in map(str.split, lines):
        command = cli.commands.get(verb, cli.commands["audit"])
        known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        options = {word for word in words if word.startswith("-")}
        used |= options
        unknown |= options - known
    assert "--max-log10-bound" in used
    assert unknown == set()


def test_readme_python_example_runs(monkeypatch, capsys):
    examples = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    assert len(examples) == 2
    names: dict[str, object] = {}
    for example in examples:  # a later one goes on with the imports of the first
        exec(compile(example, "README.md", "exec"), names)
    assert "conv2d" in capsys.readouterr().out


def test_the_changelog_has_an_entry_for_this_version():
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(lipaudit.__version__)}\b", changelog, flags=re.MULTILINE)


def test_extras_cover_what_the_ci_calls():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {re.split(r"[><=\[]", requirement)[0] for requirement in extras["test"] + extras["docs"]}
    assert {"pytest", "ruff", "mypy", "import-linter", "sphinx", "build", "hatchling"} <= names
