"""`docs/export/random_face.py` on a tiny network of the same layers, against the same arithmetic by hand."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

ROOT = Path(__file__).parents[2]
STYLE, CHANNELS, SIDE = 6, 4, 8
NUMBERS = np.random.default_rng(5)


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("random_face", ROOT / "docs/export/random_face.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {"STYLE": STYLE, "SIDE": SIDE, "STYLES": 400}.items():
        monkeypatch.setattr(module, name, value)
    return module


class Ir:
    """Writes layers as OpenVINO does, for a batch of one."""

    def __init__(self):
        self.layers, self.edges, self.weights = [], [], b""

    def add(self, kind, inputs, *sides, **data):
        number = len(self.layers)
        ports = "".join(f'<port id="{at}"/>' for at in range(len(inputs)))
        for at, (layer, port) in enumerate(inputs):
            self.edges.append(f'<edge from-layer="{layer}" from-port="{port}" to-layer="{number}" to-port="{at}"/>')
        outputs = [(number, len(inputs) + at) for at in range(len(sides))]
        ends = "".join(
            f'<port id="{port}">{"".join(f"<dim>{side}</dim>" for side in own)}</port>'
            for (_, port), own in zip(outputs, sides, strict=True)
        )
        told = " ".join(f'{key}="{value}"' for key, value in data.items())
        self.layers.append(
            f'<layer id="{number}" type="{kind}"><data {told}/><input>{ports}</input><output>{ends}</output></layer>'
        )
        return outputs[0] if len(outputs) == 1 else outputs

    def const(self, values, kind="f32"):
        values = np.asarray(values, {"f32": np.float32, "i64": np.int64}[kind])
        start = len(self.weights)
        self.weights += values.tobytes()
        shape = ", ".join(map(str, values.shape))
        sizes = {"offset": start, "size": values.nbytes}
        return self.add("Const", [], values.shape, element_type=kind, shape=shape, **sizes)

    def batched(self, value, of, sides, open_sides=()):
        """A reshape to a batch that the IR reads off another value; some sides may be left open."""
        shape = self.add("ShapeOf", [of], [2])
        zero = [self.const(0, "i64"), self.const(0, "i64")]
        batch = self.add("Unsqueeze", [self.add("Gather", [shape, *zero], []), self.const([0], "i64")], [1])
        rest = [self.const([-1 if at in open_sides else side], "i64") for at, side in enumerate(sides)]
        whole = self.add("Concat", [batch, *rest], [1 + len(sides)], axis=0)
        return self.add("Reshape", [value, whole], [1, *sides], special_zero="true")

    def write(self, folder, name):
        folder.mkdir(exist_ok=True)
        text = f"<net><layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges></net>"
        (folder / f"{name}.xml").write_text(text)
        (folder / f"{name}.bin").write_bytes(self.weights)


def normal(*sides):
    return NUMBERS.standard_normal(sides).astype(np.float32)


def mapping(folder):
    """Normalised latents, a layer with a bias, a leaky ReLU and a factor."""
    weight, bias = normal(STYLE, STYLE), normal(STYLE)
    g, row, one = Ir(), [1, STYLE], [1, 1]
    z = g.add("Parameter", [], row, element_type="f32", shape=f"1, {STYLE}")
    mean = g.add("ReduceMean", [g.add("Power", [z, g.const([[2.0]])], row), g.const([1], "i64")], one, keep_dims="true")
    root = g.add("Power", [g.add("Add", [mean, g.const([[1e-8]])], one), g.const([[0.5]])], one)
    x = g.add("Multiply", [z, g.add("Power", [root, g.const([[-1.0]])], one)], row)
    x = g.add("MatMul", [x, g.const(weight)], row, transpose_a="false", transpose_b="true")
    x = g.add("Add", [x, g.batched(g.const(bias), x, [STYLE])], row)
    x = g.add("Multiply", [g.add("PReLU", [x, g.const([0.2])], row), g.const([[1.5]])], row)
    g.add("Result", [x])
    g.write(folder, "MappingNetwork")

    def by_hand(z):
        x = z / np.sqrt((z**2).mean(1, keepdims=True) + 1e-8) @ weight.T + bias
        return 1.5 * np.where(x < 0, 0.2 * x, x)

    return by_hand


def convolved(x, weight):
    """Three by three, padded by one."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def synthesis(folder):
    """A constant scaled by the style, two convolutions, fixed noise, and twice the side by a wavelet."""
    start, style = normal(1, CHANNELS, 4, 4), normal(CHANNELS, STYLE)
    full, each, noise = normal(6, CHANNELS, 3, 3), normal(6, 1, 1, 3, 3), normal(1, 1, 4, 4)
    low, high = normal(3, 1, 1, 2, 2), normal(3, 1, 1, 2, 2)
    g, plane = Ir(), [1, 6, 4, 4]
    w = g.add("Parameter", [], [1, STYLE], element_type="f32", shape=f"1, {STYLE}")
    scale = g.add("MatMul", [w, g.const(style)], [1, CHANNELS], transpose_a="false", transpose_b="true")
    scale = g.batched(scale, w, [CHANNELS, 1, 1], open_sides=(0,))
    shape = g.add("ShapeOf", [w], [2])
    batch = g.add("Gather", [shape, g.const([0], "i64"), g.const(0, "i64")], [1])
    repeats = g.add("Concat", [batch, g.const([1, 1, 1], "i64")], [4], axis=0)
    x = g.add("Tile", [g.const(start), repeats], [1, CHANNELS, 4, 4])
    x = g.add("Multiply", [scale, x], [1, CHANNELS, 4, 4])
    window = {"strides": "1, 1", "dilations": "1, 1", "pads_begin": "1, 1", "pads_end": "1, 1"}
    x = g.add("Convolution", [x, g.const(full)], plane, **window)
    x = g.add("Add", [x, g.const(noise)], plane)
    x = g.add("GroupConvolution", [x, g.const(each)], plane, **window)
    parts = g.add("VariadicSplit", [x, g.const(1, "i64"), g.const([3, 3], "i64")], [1, 3, 4, 4], [1, 3, 4, 4])
    window |= {"strides": "2, 2", "pads_begin": "0, 0", "pads_end": "0, 0"}
    kind, image = "GroupConvolutionBackpropData", [1, 3, SIDE, SIDE]
    ends = [g.add(kind, [part, g.const(own)], image, **window) for part, own in zip(parts, (low, high), strict=True)]
    g.add("Result", [g.add("Add", ends, image)])
    g.write(folder, "SynthesisNetwork")

    def by_hand(w):
        x = convolved(start * (w @ style.T)[:, :, None, None], full) + noise
        x = np.concatenate([convolved(x[:, at : at + 1], each[at]) for at in range(6)], 1)
        up = [np.einsum("nchw,cij->nchiwj", x[:, 3 * at : 3 * at + 3], own[:, 0, 0]) for at, own in enumerate((low, high))]
        return (up[0] + up[1]).reshape(len(x), 3, SIDE, SIDE)

    return by_hand


def exported(script, package, path, **options):
    given = {"size": SIDE, "latent": "z", "noise": "fixed", "truncation": 1.0, "batch": None, **options}
    script.export(SimpleNamespace(package=package, out=path, **given))
    return path


def ran(path, *rows):
    from onnx.reference import ReferenceEvaluator

    network = ReferenceEvaluator(str(path))
    return network.run(None, dict(zip(network.input_names, rows, strict=True)))[0]


@pytest.fixture
def package(tmp_path):
    data = tmp_path / "random_face" / "data"
    data.parent.mkdir()
    return data.parent, mapping(data), synthesis(data)


def test_the_file_is_the_network_for_any_batch(script, package, tmp_path):
    folder, style, image = package
    path = exported(script, folder, tmp_path / "g.onnx")
    for batch in (1, 5):
        z = normal(batch, STYLE)
        wanted = np.clip(image(style(z)), -1, 1)
        assert np.abs(ran(path, z) - wanted).max() < 1e-4
    made = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert json.loads(made["random-face"])["latent"] == "z"


def test_images_are_averaged_and_styles_truncated(script, package, tmp_path):
    folder, style, image = package
    path = exported(script, folder, tmp_path / "g.onnx", size=2, truncation=0.5)
    z = normal(3, STYLE)
    mean = style(np.random.default_rng(0).standard_normal((400, STYLE), np.float32)).mean(0)
    wanted = np.clip(image(mean + 0.5 * (style(z) - mean)), -1, 1)
    wanted = wanted.reshape(3, 3, 2, SIDE // 2, 2, SIDE // 2).mean((3, 5))
    assert np.abs(ran(path, z) - wanted).max() < 1e-4
    # Pixels that are cut in two count by halves.
    thirds = script.averaging(2, 3)
    assert np.allclose(thirds, [[1, 0], [0.5, 0.5], [0, 1]])


def test_a_normal_law_stands_for_styles(script, package, tmp_path):
    folder, style, _ = package
    path = exported(script, folder, tmp_path / "g.onnx", latent="w")
    assert onnx.load(path).graph.input[0].name == "v"
    mapped = script.Network(*script.networks(folder)[0])
    mean, matrix = script.style_map(mapped)
    before = script.styles(mapped, 400, keep="PReLU")
    assert np.allclose(matrix.T @ matrix, np.cov(before.T), atol=1e-4)
    # Known layers are the mapping itself, and its constants are found.
    assert np.allclose(mapped.last("Multiply") * np.where(before < 0, 0.2 * before, before), script.styles(mapped, 400))
    assert np.allclose(style(np.random.default_rng(0).standard_normal((400, STYLE), np.float32)), script.styles(mapped, 400), atol=1e-5)
    assert mean.shape == (STYLE,) and ran(path, normal(2, STYLE)).shape == (2, 3, SIDE, SIDE)


def test_the_batch_can_be_fixed(script, package, tmp_path):
    path = exported(script, package[0], tmp_path / "g.onnx", batch=1)
    graph = onnx.load(path).graph
    sides = [port.type.tensor_type.shape.dim[0].dim_value for port in (*graph.input, *graph.output)]
    assert sides == [1, 1]


def test_noise_becomes_an_input_as_strong_as_it_was(script, package, tmp_path):
    folder, _, _ = package
    path = exported(script, folder, tmp_path / "g.onnx", noise="inputs")
    inputs = onnx.load(path).graph.input
    assert [port.name for port in inputs] == ["z", "noise1"]
    z, none = normal(2, STYLE), np.zeros((2, 1, 4, 4), np.float32)
    assert np.abs(ran(path, z, none) - ran(path, z, none + 1)).max() > 0


def test_a_package_that_is_not_there_is_one_line(script, tmp_path):
    with pytest.raises(SystemExit, match="there is no `gone.whl`\nhint: pip download"):
        script.networks("gone.whl")
    (tmp_path / "x.whl").write_text("no zip")
    with pytest.raises(SystemExit, match="is not the wheel or the folder of random-face"):
        script.networks(tmp_path / "x.whl")
