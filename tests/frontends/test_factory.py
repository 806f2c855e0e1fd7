import os
import sys

import pytest
import torch
from torch import nn

from lipaudit.errors import ModelLoadError, ModelNotFoundError, UsageError
from lipaudit.frontends.load import load

SOURCE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 2)
    def forward(self, image):
        return self.fc(image)
made = Net()
number = 3
def build():
    return Net()
def ready():
    return Net().eval()
def wrong():
    return "no module"
def meddling():
    import os
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    return nn.Linear(6, 2, device="cpu", dtype=torch.float32)
def broken():
    raise RuntimeError("no luck")
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path, monkeypatch):
    (tmp_path / "user_code.py").write_text(SOURCE)
    (tmp_path / "half_code.py").write_text("import a_package_that_is_not_there")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("user_code", "half_code"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["build", "made", "Net"])
def test_functions_classes_and_modules(name):
    before = list(sys.path)
    loaded = load(f"user_code:{name}", input_shapes={"image": (1, 6)})
    assert isinstance(loaded.module, nn.Module)
    assert loaded.input_shapes == {"image": (1, 6)}
    assert (loaded.source, loaded.module.training) == ("factory", False)
    assert sys.path == before


@pytest.mark.parametrize(("name", "said"), [("build", True), ("ready", False)])
def test_a_network_in_training_mode_is_said_to_be_audited_in_evaluation_mode(name, said):
    notes = load(f"user_code:{name}", input_shapes={"image": (1, 6)}).notes
    assert any("audited in evaluation mode" in note for note in notes) == said


def test_the_generator_is_seeded_and_restored():
    state = torch.random.get_rng_state()
    first, second = (load("user_code:build", input_shapes={"": (1, 6)}) for _ in range(2))
    assert torch.equal(first.module.fc.weight, second.module.fc.weight)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("user_code:nothing", ModelNotFoundError, "no attribute"),
        ("no_such_module_here:build", ModelNotFoundError, "no Python module"),
        ("half_code:build", ModelLoadError, "importing half_code failed"),
        ("user_code:wrong", ModelLoadError, "returned a str"),
        ("user_code:number", ModelLoadError, "is a int"),
        ("user_code:broken", ModelLoadError, "no luck"),
    ],
)
def test_errors_name_the_cause(spec, error, message):
    with pytest.raises(error, match=message):
        load(spec, input_shapes={"": (1, 6)})


def test_the_working_directory_and_the_defaults_of_torch_are_restored():
    def settings():
        return os.getcwd(), torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()

    before = settings()
    assert load("user_code:meddling", input_shapes={"": (1, 6)}).module.weight.dtype == torch.float32
    assert settings() == before
    assert torch.zeros(1).device.type == "cpu"


def test_the_input_size_is_asked_for():
    with pytest.raises(UsageError, match="input_shape"):
        load("user_code:build")
