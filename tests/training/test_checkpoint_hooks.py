"""The callback as frameworks call it: by name, with their own arguments; the real ones where they are installed."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from lipaudit.errors import CaptureError, NonFiniteWeightsError, UsageError
from lipaudit.training import AuditCheckpoints
from tests.training.test_checkpoints import SHAPE, Exporting, history, small

# every hook that lightning.pytorch 2.6 calls on a callback
LIGHTNING = """setup teardown on_fit_start on_fit_end on_sanity_check_start on_sanity_check_end on_train_batch_start on_train_batch_end
on_train_epoch_start on_train_epoch_end on_validation_epoch_start on_validation_epoch_end on_test_epoch_start on_test_epoch_end
on_predict_epoch_start on_predict_epoch_end on_validation_batch_start on_validation_batch_end on_test_batch_start on_test_batch_end
on_predict_batch_start on_predict_batch_end on_train_start on_train_end on_validation_start on_validation_end on_test_start on_test_end
on_predict_start on_predict_end on_exception on_save_checkpoint on_load_checkpoint on_before_backward on_after_backward
on_before_optimizer_step on_before_zero_grad"""
# every event that transformers 5.24 calls
HUGGING_FACE = """on_init_end on_train_begin on_train_end on_epoch_begin on_epoch_end on_step_begin on_pre_optimizer_step on_optimizer_step
on_substep_end on_step_end on_evaluate on_predict on_save on_log on_prediction_step on_push_begin"""


def trainer(step: int = 0, **changes: Any) -> SimpleNamespace:
    saver = SimpleNamespace(save_weights_only=False)
    fields = {"is_global_zero": True, "global_step": step, "fast_dev_run": False, "checkpoint_callbacks": [saver]}
    return SimpleNamespace(**{**fields, **changes})


def hugging_face(audits: AuditCheckpoints, event: str, step: int, model: nn.Module | None, zero: bool = True) -> Any:
    args, control = SimpleNamespace(save_strategy=SimpleNamespace(value="steps")), SimpleNamespace()
    state = SimpleNamespace(global_step=step, is_world_process_zero=zero)
    everything = dict.fromkeys(("processing_class", "optimizer", "lr_scheduler", "train_dataloader", "eval_dataloader"))
    return getattr(audits, event)(args, state, control, model=model, **everything)


def steps(folder: Path) -> list[int]:
    return [int(path.stem.removeprefix("step-")) for path in sorted(folder.glob("step-*.json"))]


def test_every_hook_of_lightning_is_answered_and_only_saving_audits(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    for hook in LIGHTNING.split():
        extra = {"setup": ("fit",), "teardown": ("fit",), "on_save_checkpoint": ({},)}.get(hook, ())
        assert callable(getattr(audits, hook))
        if hook != "on_save_checkpoint":
            getattr(audits, hook)(trainer(4), small(), *extra)
    assert list(tmp_path.iterdir()) == []
    audits.on_save_checkpoint(trainer(4), small(), {})
    assert steps(tmp_path) == [4]
    assert audits.state_dict() == {}
    audits.load_state_dict({})
    other = AuditCheckpoints(tmp_path / "other", SHAPE)
    assert isinstance(audits.state_key, str)
    assert audits.state_key != other.state_key


def test_every_event_of_hugging_face_is_answered_and_only_saving_audits(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    for event in HUGGING_FACE.split():
        if event != "on_save":
            assert hugging_face(audits, event, 4, small()) is None
    assert list(tmp_path.iterdir()) == []
    assert hugging_face(audits, "on_save", 4, small()) is None
    assert steps(tmp_path) == [4]


def test_other_names_are_no_attributes(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'on'"):
        _ = audits.on
    assert not hasattr(audits, "__deepcopy__")


def test_at_the_end_of_epochs(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE, at="epoch")
    net = small()
    audits.on_save_checkpoint(trainer(1), net, {})
    hugging_face(audits, "on_save", 1, net)
    assert steps(tmp_path) == []
    audits.on_train_epoch_end(trainer(2), net)
    hugging_face(audits, "on_epoch_end", 3, net)
    assert steps(tmp_path) == [2, 3]
    saving = AuditCheckpoints(tmp_path, SHAPE)
    saving.on_train_epoch_end(trainer(4), net)
    hugging_face(saving, "on_epoch_end", 4, net)
    assert steps(tmp_path) == [2, 3]


def test_only_rank_zero_audits(tmp_path: Path) -> None:
    for at in ("save", "epoch"):
        audits = AuditCheckpoints(tmp_path / at, SHAPE, at=at)
        audits.on_save_checkpoint(trainer(1, is_global_zero=False), small(), {})
        audits.on_train_epoch_end(trainer(1, is_global_zero=False), small())
        for event in ("on_save", "on_epoch_end"):
            hugging_face(audits, event, 1, small(), zero=False)
    assert list(tmp_path.iterdir()) == []


def test_every_nth_checkpoint_is_audited_from_the_first_on(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE, every=3)
    for step in (10, 20, 30, 40, 50, 60, 70):
        for _ in range(2):  # Lightning saves twice at a step: the best and the last
            audits.on_save_checkpoint(trainer(step), small(), {})
    assert steps(tmp_path) == [10, 40, 70]


def broken() -> nn.Module:
    net = small()
    with torch.no_grad():
        net[0].weight[0, 0, 0, 0] = torch.inf
    return net


def test_the_first_checkpoint_raises_the_audits_own_error(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    for _ in range(2):
        with pytest.raises(NonFiniteWeightsError):
            audits.on_save_checkpoint(trainer(1), broken(), {})
    with pytest.raises(CaptureError):
        hugging_face(audits, "on_save", 2, Exporting())
    assert steps(tmp_path) == []


def test_a_later_failure_is_a_warning_and_a_line_and_the_training_goes_on(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    audits.on_save_checkpoint(trainer(1), small(), {})
    with pytest.warns(UserWarning, match=r"step 2 was not audited \(NonFiniteWeightsError: .*history\.tsv"):
        audits.on_save_checkpoint(trainer(2), broken(), {})
    audits.on_save_checkpoint(trainer(3), small(1), {})
    assert [(line["step"], line["status"]) for line in history(tmp_path)] == [
        ("1", "finite"),
        ("2", "failed"),
        ("3", "finite"),
    ]
    assert history(tmp_path)[1]["reason"].startswith("NonFiniteWeightsError: ")
    strict = AuditCheckpoints(tmp_path / "strict", SHAPE, keep_going=False)
    strict.on_save_checkpoint(trainer(1), small(), {})
    with pytest.raises(NonFiniteWeightsError):
        strict.on_save_checkpoint(trainer(2), broken(), {})


def test_a_failure_does_not_replace_the_line_of_a_report(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    audits.on_save_checkpoint(trainer(1), small(), {})
    with pytest.warns(UserWarning, match="other weights"):
        audits.on_save_checkpoint(trainer(1), small(1), {})
    assert [(line["step"], line["status"]) for line in history(tmp_path)] == [("1", "finite")]
    (tmp_path / "history.tsv").write_text("something else")
    with pytest.warns(UserWarning, match=r"the history cannot be written \(.*is no history"):
        audits.on_save_checkpoint(trainer(2), broken(), {})


def test_a_training_whose_checkpoints_would_not_be_audited_is_refused(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    with pytest.raises(UsageError, match="saves no checkpoints"):
        audits.on_fit_start(trainer(checkpoint_callbacks=[]), small())
    with pytest.raises(UsageError, match="save_weights_only=True"):
        audits.on_fit_start(trainer(checkpoint_callbacks=[SimpleNamespace(save_weights_only=True)]), small())
    audits.on_fit_start(trainer(checkpoint_callbacks=[], fast_dev_run=True), small())
    for strategy in ("no", SimpleNamespace(value="no")):
        with pytest.raises(UsageError, match="save_strategy='no'"):
            audits.on_train_begin(SimpleNamespace(save_strategy=strategy), None, None)
    at_epochs = AuditCheckpoints(tmp_path, SHAPE, at="epoch")
    at_epochs.on_fit_start(trainer(checkpoint_callbacks=[]), small())
    at_epochs.on_train_begin(SimpleNamespace(save_strategy="no"), None, None)


def equal(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_the_lists_of_hooks_are_those_of_the_frameworks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        callbacks = pytest.importorskip("lightning.pytorch.callbacks")
        transformers = pytest.importorskip("transformers")
    known = {name for name in vars(callbacks.Callback) if not name.startswith("_")}
    assert known - {"state_key", "state_dict", "load_state_dict"} == set(LIGHTNING.split())
    assert {name for name in vars(transformers.TrainerCallback) if name.startswith("on_")} == set(HUGGING_FACE.split())


@pytest.mark.filterwarnings("ignore")  # those of lightning and of what it imports
def test_with_lightning(tmp_path: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch")
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Classifier(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = small()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
            self.log("val", nn.functional.cross_entropy(self(batch[0]), batch[1]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(folder: Path, audits: list[AuditCheckpoints], **options: Any) -> Any:
        pl.seed_everything(0)
        data = torch.utils.data.TensorDataset(torch.randn(16, *SHAPE), torch.randint(3, (16,)))
        loaders = [torch.utils.data.DataLoader(data, batch_size=4, shuffle=shuffle) for shuffle in (True, False)]
        saver = ModelCheckpoint(folder, every_n_train_steps=3, save_top_k=-1, save_last=True, **options)
        saver_of_epochs = ModelCheckpoint(folder / "epochs", monitor="val", save_top_k=-1, **options)
        found = pl.Trainer(
            max_epochs=2,
            callbacks=[*audits, saver, saver_of_epochs],
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
        )
        model = Classifier()
        found.fit(model, *loaders)
        return model

    plain = fit(tmp_path / "plain", [])
    saving = AuditCheckpoints(tmp_path / "saving", SHAPE, tol=1e-2)
    at_epochs = AuditCheckpoints(tmp_path / "epochs", SHAPE, tol=1e-2, at="epoch")
    audited = fit(tmp_path / "audited", [saving, at_epochs])
    assert equal(plain, audited)
    assert steps(tmp_path / "saving") == [3, 4, 6, 8]  # every third step, and after the validation of each epoch
    assert steps(tmp_path / "epochs") == [4, 8]
    assert [line["status"] for line in history(tmp_path / "saving")] == ["finite"] * 4
    assert "net.0" in history(tmp_path / "saving")[0]["costs_most"]
    assert len(list((tmp_path / "audited").rglob("*.ckpt"))) == len(list((tmp_path / "plain").rglob("*.ckpt"))) > 4
    with pytest.raises(UsageError, match="save_weights_only=True"):
        fit(tmp_path / "weights", [AuditCheckpoints(tmp_path / "none", SHAPE)], save_weights_only=True)
    # a checkpoint with the callback can be loaded with it
    trainer_again = pl.Trainer(
        max_epochs=3,
        callbacks=[AuditCheckpoints(tmp_path / "again", SHAPE)],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    data = torch.utils.data.TensorDataset(torch.randn(16, *SHAPE), torch.randint(3, (16,)))
    trainer_again.fit(
        Classifier(),
        torch.utils.data.DataLoader(data, batch_size=4),
        ckpt_path=tmp_path / "audited" / "last.ckpt",
        weights_only=False,
    )
    assert steps(tmp_path / "again")[-1] == 12


@pytest.mark.filterwarnings("ignore")
def test_with_the_hugging_face_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def fit(folder: Path, audits: list[AuditCheckpoints]) -> nn.Module:
        transformers.set_seed(0)
        config = transformers.ResNetConfig(
            num_channels=1, embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=3
        )
        model = transformers.ResNetForImageClassification(config)
        data = [{"pixel_values": torch.randn(1, 16, 16), "labels": i % 3} for i in range(16)]
        args = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=8,
            per_device_train_batch_size=4,
            save_strategy="steps",
            save_steps=3,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
        )
        transformers.Trainer(model=model, args=args, train_dataset=data, callbacks=audits).train()
        return model

    plain = fit(tmp_path / "plain", [])
    saving = AuditCheckpoints(tmp_path / "saving", (1, 16, 16), tol=1e-2)
    audited = fit(tmp_path / "audited", [saving])
    assert equal(plain, audited)
    assert audited.training
    assert (
        steps(tmp_path / "saving")
        == sorted(int(path.name.removeprefix("checkpoint-")) for path in (tmp_path / "audited").glob("checkpoint-*"))
        == [3, 6, 8]
    )
    assert [line["status"] for line in history(tmp_path / "saving")] == ["finite"] * 3


class FromEmbeddings(nn.Module):
    """A text model as a function of its embeddings, with a tensor in and a tensor out, as docs/training.md shows it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(inputs_embeds=embeddings).logits
        return logits


@pytest.mark.filterwarnings("ignore")
def test_a_text_model_is_audited_from_its_embeddings(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        vocab_size=50,
        max_position_embeddings=16,
    )
    model = transformers.BertForSequenceClassification(config)
    audits = AuditCheckpoints(tmp_path, {"embeddings": (1, 8, 16)}, network=FromEmbeddings)
    hugging_face(audits, "on_save", 1, model)
    (line,) = history(tmp_path)
    assert line["status"] == "finite"
    assert model.training


def test_lightning_fabric_is_unwrapped(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning = pytest.importorskip("lightning")
        fabric = lightning.Fabric(accelerator="cpu", devices=1)
        net = small()
        wrapped = fabric.setup(net)
        report = AuditCheckpoints(tmp_path, SHAPE)(wrapped, 1)
    assert [layer.name for layer in report.layers] == ["0", "5"]
