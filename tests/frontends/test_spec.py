import pytest

from lipaudit.errors import UsageError
from lipaudit.frontends.shapes import complete_shape, resolve_shapes
from lipaudit.frontends.spec import Kind, parse_input, parse_spec


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("resnet50", Kind.NAME, "resnet50"),
        ("torchvision:resnet50@IMAGENET1K_V2", Kind.TORCHVISION, "resnet50@IMAGENET1K_V2"),
        ("timm:resnet18.a1_in1k", Kind.TIMM, "resnet18.a1_in1k"),
        ("timm:resnet18.*", Kind.TIMM, "resnet18.*"),
        ("net.ONNX", Kind.FILE, "net.ONNX"),
        ("./dir/net", Kind.FILE, "./dir/net"),
        ("a.th", Kind.FILE, "a.th"),
        ("package.module:factory", Kind.FACTORY, "package.module:factory"),
        ("module:Class.build", Kind.FACTORY, "module:Class.build"),
    ],
)
def test_kind_of_specification(text, kind, name):
    spec = parse_spec(text)
    assert (spec.kind, spec.name, spec.text) == (kind, name, text)


@pytest.mark.parametrize("text", ["", "  ", "timm:", "foo bar:baz", "a:b:c"])
def test_malformed_specifications_are_refused(text):
    with pytest.raises(UsageError):
        parse_spec(text)


@pytest.mark.parametrize(
    ("text", "name", "sizes"),
    [
        ("224", "", (224,)),
        ("3x224x224", "", (3, 224, 224)),
        ("1,3,224,224", "", (1, 3, 224, 224)),
        ("1, 3, 8, 8", "", (1, 3, 8, 8)),
        ("image:1,3,224,224", "image", (1, 3, 224, 224)),
        ("input:0:32", "input:0", (32,)),
    ],
)
def test_input_sizes(text, name, sizes):
    assert parse_input(text) == (name, sizes)


@pytest.mark.parametrize("text", ["", "x", "0", "-3", "3x", "3xx4", "1.5", "224px", "name:", "9" * 23])
def test_malformed_input_sizes_are_refused(text):
    with pytest.raises(UsageError, match="input_shape must be a size such as 224"):
        parse_input(text)


@pytest.mark.parametrize(
    ("requested", "default", "expected"),
    [
        ((3, 64, 64), None, (1, 3, 64, 64)),
        ((1, 28, 28), None, (1, 1, 28, 28)),
        ((1, 7), None, (1, 7)),
        ((64,), (1, 1, 28, 28), (1, 1, 64, 64)),
        ((64,), (1, 3, 16, 112, 112), (1, 3, 16, 64, 64)),
        ((5,), (1, 12), (1, 5)),
        ((1, 5), (1, 12), (1, 5)),
        ((4, 32, 48), (1, 3, 8, 8), (1, 4, 32, 48)),
        ((1, 4, 32, 48), (1, 3, 8, 8), (1, 4, 32, 48)),
    ],
)
def test_short_forms_of_shapes(requested, default, expected):
    assert complete_shape(requested, default) == expected


@pytest.mark.parametrize(
    ("requested", "default"),
    [((64,), None), ((2, 3, 8, 8), None), ((2, 3, 8, 8), (1, 3, 8, 8)), ((8, 8, 8), (1, 12))],
)
def test_batches_and_wrong_ranks_are_refused(requested, default):
    with pytest.raises(UsageError):
        complete_shape(requested, default)


def test_requests_are_matched_to_names():
    defaults = {"left": (1, 3, 8, 8), "right": (1, 3, 8, 8)}
    assert resolve_shapes({"right": (16,)}, defaults) == {"left": (1, 3, 8, 8), "right": (1, 3, 16, 16)}
    with pytest.raises(UsageError, match="has 2 inputs"):
        resolve_shapes({"": (16,)}, defaults)
    with pytest.raises(UsageError, match="no input named 'up'"):
        resolve_shapes({"up": (16,)}, defaults)
    with pytest.raises(UsageError, match="not known"):
        resolve_shapes(None, {"x": None})
