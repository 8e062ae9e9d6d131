"""MobileStyleGAN, a generator of StyleGAN2's kind for faces, as one ONNX file that `s2m fit` takes.

    pip download --no-deps random-face==2021.7.21.1
    python random_face.py export random_face-2021.7.21.1-py3-none-any.whl faces.onnx --size 64
    python random_face.py check random_face-2021.7.21.1-py3-none-any.whl faces.onnx
    python random_face.py render large.onnx samples/latents.npy large

`export` needs the packages `numpy` and `onnx`, `check` also `onnxruntime` and `openvino`, `render` `onnxruntime` and
`pillow`; none uses the network.
The wheel, or the folder of the installed package, holds two networks as OpenVINO IR of version 10: a mapping from
z to a style w, and a synthesis from w to an image of 1024 by 1024 pixels. Both are read from their XML and joined:

- any batch: shapes that the IR computes from a batch of one become constants with a free first axis; `--batch N`
  fixes it, where memory is short;
- `--size S`: the image is averaged down to S by S pixels inside the file, after its values were cut to [-1, 1];
- `--noise inputs`: the noise of each layer, fixed in the IR, becomes an input of its own, standard normal and scaled
  as the fixed noise was; by default it stays fixed;
- `--truncation PSI`: styles move towards their mean by 1 - PSI, as the package itself does with 0.5;
- `--latent w`: the input is a standard normal `v` that stands for the style. Styles have no density: the mapping
  divides z by its length, so they lie on a surface of 511 dimensions. Before the last leaky ReLU they are nearly normal,
  though (Zhu et al., "Improved StyleGAN Embedding", 2020), so that v becomes w by a linear map to their mean and
  covariance there, and that leaky ReLU. The prior is exact for the file, which is not quite the same generator.

`check` compares a file with OpenVINO's own run of the IR. `render` makes images of latents that `s2m sample --latents`
kept, by another file of the same kind of latent: choose at 64 by 64 pixels, look at 1024 by 1024.

The weights were distilled from NVIDIA's StyleGAN2, whose licence allows non-commercial use only.
"""
import argparse
import json
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import numpy as np

#: Sides of the images that the synthesis makes, and numbers in a style.
SIDE, STYLE = 1024, 512
#: Latents by which the mean and covariance of styles are estimated.
STYLES = 50_000
TYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32}


class Layer:
    """One layer of an IR: its type, its attributes, and where its inputs come from."""

    def __init__(self, element, sources):
        self.id, self.type = element.get("id"), element.get("type")
        data = element.find("data")
        self.data = {} if data is None else dict(data.attrib)
        self.inputs = [sources[self.id, port.get("id")] for port in element.findall("input/port")]
        self.outputs = [(self.id, port.get("id")) for port in element.findall("output/port")]
        self.sides = [[int(dim.text) for dim in port.findall("dim")] for port in element.findall("output/port")]

    def numbers(self, name):
        return [int(text) for text in self.data[name].split(",")]


class Network:
    """A network of the package: layers in their order, and the bytes of its weights."""

    def __init__(self, xml, weights):
        root = ET.fromstring(xml)
        sources = {(edge.get("to-layer"), edge.get("to-port")): (edge.get("from-layer"), edge.get("from-port"))
                   for edge in root.findall("edges/edge")}
        self.weights = weights
        self.layers = [Layer(element, sources) for element in root.findall("layers/layer")]

    def run(self, given, graph, keep=None):
        """Follows all layers: what is known is computed, the rest becomes nodes of the graph.

        `given` stands for the parameter, an array or the name of a value. A side of -1 is the batch. With `keep`
        a type of layer, the input of the last one is given back, instead of the result.
        """
        values, kept, result = {}, None, None
        for layer in self.layers:
            inputs = [values[source] for source in layer.inputs]
            if layer.type == keep:
                kept = inputs[0]
            if layer.type == "Parameter":
                found = [given]
            elif layer.type == "Const":
                found = [self.constant(layer)]
            elif layer.type == "Result":
                result = inputs[0]
                continue
            elif all(isinstance(value, np.ndarray) for value in inputs):
                found = [np.asarray(known(layer, inputs))]
            else:
                found = graph.layer(layer, inputs)
            values.update(zip(layer.outputs, found))
        return result if keep is None else kept

    def constant(self, layer):
        start, size = int(layer.data["offset"]), int(layer.data["size"])
        sides = [int(side) for side in layer.data["shape"].split(",") if side.strip()]
        values = np.frombuffer(self.weights[start:start + size], TYPES[layer.data["element_type"].lower()])
        return values.reshape(sides)

    def last(self, kind):
        """The constant of the last layer of a type."""
        layer = [layer for layer in self.layers if layer.type == kind][-1]
        constants = {own.outputs[0]: own for own in self.layers if own.type == "Const"}
        return next(self.constant(constants[source]) for source in layer.inputs if source in constants)


def known(layer, inputs):
    """What a layer makes of arrays."""
    first, rest = inputs[0], inputs[1:]
    if layer.type == "MatMul":
        return first @ (rest[0].T if layer.data["transpose_b"] == "true" else rest[0])
    if layer.type == "PReLU":
        return np.where(first < 0, first * rest[0], first)
    if layer.type == "ReduceMean":
        return first.mean(tuple(rest[0]), keepdims=layer.data["keep_dims"] == "true")
    if layer.type == "Tile":
        # Over the batch: what multiplies it later has the batch itself.
        return np.tile(first, np.where(rest[0] == -1, 1, rest[0]))
    if layer.type == "Broadcast":
        sides = [max(side, 1) for side in rest[0]]
        return np.broadcast_to(first, np.broadcast_shapes(first.shape, sides))
    simple = {
        "Add": lambda: first + rest[0],
        "Multiply": lambda: first * rest[0],
        "Power": lambda: first ** rest[0],
        "ShapeOf": lambda: np.array([-1, *first.shape[1:]]),
        "Gather": lambda: np.take(first, rest[0], int(rest[1])),
        "Concat": lambda: np.concatenate(inputs, int(layer.data.get("axis", 0))),
        "Reshape": lambda: first.reshape(rest[0]),
        "Unsqueeze": lambda: np.expand_dims(first, tuple(np.atleast_1d(rest[0]))),
        "Squeeze": lambda: np.squeeze(first, tuple(np.atleast_1d(rest[0]))),
    }
    return simple[layer.type]()


class Graph:
    """An ONNX graph in the making; values are known by their names."""

    def __init__(self, noise, batch):
        from onnx import helper, numpy_helper
        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes, self.constants, self.inputs = [], [], []
        self.noise, self.batch, self.sides = noise, batch, {}

    def input(self, name, sides):
        self.inputs.append(self.helper.make_tensor_value_info(name, 1, [self.batch, *sides]))
        self.sides[name] = [-1, *sides]
        return name

    def constant(self, values):
        name = f"constant{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind, inputs, sides=None, outputs=1, **attributes):
        """Adds a node; arrays among its inputs become constants."""
        inputs = [self.constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        names = [f"{kind}{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(self.helper.make_node(kind, inputs, names, **attributes))
        for name, own in zip(names, sides or []):
            self.sides[name] = [-1, *own[1:]]
        return names

    def layer(self, layer, inputs):
        """Adds a layer of the IR."""
        def node(kind, given, outputs=1, **attributes):
            return self.node(kind, given, layer.sides, outputs, **attributes)

        first, rest = inputs[0], inputs[1:]
        window = {}
        if "strides" in layer.data:
            window = {"strides": layer.numbers("strides"), "dilations": layer.numbers("dilations"),
                      "pads": layer.numbers("pads_begin") + layer.numbers("pads_end")}
        match layer.type:
            case "Add" if self.noise and is_noise(rest[0]):
                return [self.with_noise(first, rest[0], layer.sides)]
            case "Add" | "Multiply":
                return node({"Add": "Add", "Multiply": "Mul"}[layer.type], inputs)
            case "MatMul":
                return node("MatMul", [first, rest[0].T if layer.data["transpose_b"] == "true" else rest[0]])
            case "PReLU":
                return node("LeakyRelu", [first], alpha=float(rest[0].item()))
            case "Power":
                exponent = float(rest[0].item())
                if exponent == 2.0:
                    return node("Mul", [first, first])
                return node({0.5: "Sqrt", -1.0: "Reciprocal"}[exponent], [first])
            case "ReduceMean":
                return node("ReduceMean", [first], axes=[int(axis) for axis in rest[0]], keepdims=1)
            case "ShapeOf":
                return [np.array(self.sides[first])]
            case "Reshape":
                # The IR may leave a side of its own open, and the batch is one.
                return node("Reshape", [first, np.array([-1, *layer.sides[0][1:]])])
            case "Squeeze":
                return node("Squeeze", [first, np.atleast_1d(rest[0]).astype(np.int64)])
            case "VariadicSplit":
                return node("Split", [first, rest[1].astype(np.int64)], len(layer.outputs), axis=int(rest[0]))
            case "Convolution":
                return node("Conv", inputs, **window)
            case "GroupConvolution":
                groups, weights = rest[0].shape[0], rest[0]
                return node("Conv", [first, weights.reshape(-1, *weights.shape[2:])], group=groups, **window)
            case "GroupConvolutionBackpropData":
                groups, weights = rest[0].shape[0], rest[0]
                return node("ConvTranspose", [first, weights.reshape(-1, *weights.shape[2:])], group=groups, **window)
        sys.exit(f"the IR has a layer `{layer.type}` of values, which is not known here")

    def with_noise(self, value, fixed, sides):
        """Fresh noise as strong as the fixed one."""
        name = self.input(f"noise{len(self.inputs)}", fixed.shape[1:])
        [scaled] = self.node("Mul", [name, np.float32(fixed.std()).reshape(1)])
        return self.node("Add", [value, scaled], sides)[0]


def is_noise(value):
    """Whether a constant is one plane for all channels."""
    return isinstance(value, np.ndarray) and value.ndim == 4 and value.shape[:2] == (1, 1) and value.shape[2] > 1


def averaging(old, new):
    """The matrix that averages rows of `old` pixels to `new` ones, by how much they overlap."""
    edges = np.linspace(0, old, new + 1)
    low = np.maximum(edges[:-1, None], np.arange(old)[None])
    high = np.minimum(edges[1:, None], np.arange(1, old + 1)[None])
    return (np.maximum(high - low, 0) * new / old).astype(np.float32)


def networks(package):
    """Mapping and synthesis, out of the wheel or out of the installed package's folder."""
    package = Path(package)
    if not package.exists():
        sys.exit(f"there is no `{package}`\nhint: pip download --no-deps random-face==2021.7.21.1")
    files = [f"{name}.{end}" for name in ("MappingNetwork", "SynthesisNetwork") for end in ("xml", "bin")]
    try:
        if package.is_dir():
            found = [(package / "data" / name).read_bytes() for name in files]
        else:
            with zipfile.ZipFile(package) as wheel:
                found = [wheel.read(f"random_face/data/{name}") for name in files]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        sys.exit(f"`{package}` is not the wheel or the folder of random-face: {error}")
    return found[:2], found[2:]


def styles(mapping, count, keep=None):
    """Styles of the first latents, or what goes into the last leaky ReLU before them."""
    z = np.random.default_rng(0).standard_normal((count, STYLE), np.float32)
    return mapping.run(z, None, keep)


def style_map(mapping):
    """The linear map from a standard normal row to what goes into the last leaky ReLU: its mean and a matrix."""
    before = styles(mapping, STYLES, keep="PReLU").astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(before.T))
    by_size = np.argsort(values)[::-1]
    matrix = np.sqrt(np.maximum(values[by_size], 0))[:, None] * vectors[:, by_size].T
    return before.mean(0).astype(np.float32), matrix.astype(np.float32)


def export(options):
    import onnx
    mapping, synthesis = (Network(*files) for files in networks(options.package))
    graph = Graph(options.noise == "inputs", options.batch or "n")
    if options.latent == "z":
        style = mapping.run(graph.input("z", [STYLE]), graph)
    else:
        mean, matrix = style_map(mapping)
        [before] = graph.node("MatMul", [graph.input("v", [STYLE]), matrix])
        [before] = graph.node("Add", [before, mean])
        [after] = graph.node("LeakyRelu", [before], alpha=float(mapping.last("PReLU").item()))
        [style] = graph.node("Mul", [after, mapping.last("Multiply").reshape(1)])
    if options.truncation != 1.0:
        mean = styles(mapping, STYLES).mean(0)
        [style] = graph.node("Mul", [style, np.float32(options.truncation).reshape(1)])
        [style] = graph.node("Add", [style, (1 - options.truncation) * mean])
    graph.sides[style] = [-1, STYLE]
    image = synthesis.run(style, graph)
    [image] = graph.node("Clip", [image, np.array(-1, np.float32), np.array(1, np.float32)])
    if options.size != SIDE:
        matrix = averaging(SIDE, options.size)
        [image] = graph.node("MatMul", [image, matrix.T])
        [image] = graph.node("MatMul", [matrix, image])
    graph.node("Identity", [image])
    graph.nodes[-1].output[0] = "x"
    output = graph.helper.make_tensor_value_info("x", 1, [graph.batch, 3, options.size, options.size])
    whole = graph.helper.make_graph(graph.nodes, "random-face", graph.inputs, [output], graph.constants)
    model = graph.helper.make_model(whole, opset_imports=[graph.helper.make_opsetid("", 17)], ir_version=9)
    model.producer_name = "random_face.py"
    made = {name: getattr(options, name) for name in ("size", "latent", "noise", "truncation")}
    graph.helper.set_model_props(model, {"random-face": json.dumps(made)})
    onnx.checker.check_model(model)
    Path(options.out).write_bytes(model.SerializeToString())


def check(options):
    """The file against OpenVINO, which runs the IR as it came."""
    import onnx
    import onnxruntime
    import openvino
    files = networks(options.package)
    made = {prop.key: prop.value for prop in onnx.load(options.file, load_external_data=False).metadata_props}
    if "random-face" not in made:
        sys.exit(f"`{options.file}` was not made by `export`")
    made = json.loads(made["random-face"])
    if made["noise"] == "inputs":
        sys.exit("OpenVINO's networks have fixed noise: check a file with `--noise fixed`")
    core = openvino.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    theirs = [core.compile_model(core.read_model(xml, weights), "CPU", exact) for xml, weights in files]
    mapping = Network(*files[0])
    latent = np.random.default_rng(1).standard_normal((options.items, STYLE), np.float32)
    if made["latent"] == "w":
        mean, matrix = style_map(mapping)
        before = mean + latent @ matrix
        style = np.where(before < 0, mapping.last("PReLU") * before, before) * mapping.last("Multiply").reshape(-1)
    else:
        style = np.concatenate([theirs[0](row[None])[0] for row in latent])
    if made["truncation"] != 1.0:
        mean = styles(mapping, STYLES).mean(0)
        style = mean + made["truncation"] * (style - mean)
    matrix = averaging(SIDE, made["size"])
    wanted = [np.clip(theirs[1](row[None].astype(np.float32))[0], -1, 1) for row in style]
    wanted = matrix @ np.concatenate(wanted) @ matrix.T
    session = onnxruntime.InferenceSession(options.file, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    one_by_one = np.concatenate([session.run(None, {name: row[None]})[0] for row in latent])
    fixed = isinstance(session.get_inputs()[0].shape[0], int)
    at_once = one_by_one if fixed else session.run(None, {name: latent})[0]
    print(f"{options.items} items, {made}, OpenVINO {openvino.__version__}, ONNX Runtime {onnxruntime.__version__}")
    print(f"values from {at_once.min():.3f} to {at_once.max():.3f}")
    print(f"largest difference from OpenVINO: {np.abs(at_once - wanted).max():.2e}")
    print(f"largest difference between one by one and at once: {np.abs(at_once - one_by_one).max():.2e}")


def render(options):
    """Images of the latents that a file of samples holds."""
    import onnxruntime
    from PIL import Image
    session = onnxruntime.InferenceSession(options.file, providers=onnxruntime.get_available_providers())
    [latents] = session.get_inputs()
    rows = np.load(options.latents)
    if rows.shape[1:] != (STYLE,):
        sys.exit(f"`{options.latents}` holds rows of shape {rows.shape[1:]}; the generator takes {STYLE} numbers")
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(rows[:options.first]):
        [[image]] = session.run(None, {latents.name: row[None]})
        levels = np.rint(image.transpose(1, 2, 0) * 127.5 + 127.5).clip(0, 255).astype(np.uint8)
        Image.fromarray(levels).save(folder / f"{number:05}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("export", help="write the ONNX file")
    one.add_argument("package", help="the wheel, or the folder of the installed package")
    one.add_argument("out", help="the ONNX file")
    one.add_argument("--size", type=int, default=SIDE, help="height and width of the images (%(default)s)")
    one.add_argument("--latent", choices=["z", "w"], default="z", help="what the input stands for (%(default)s)")
    one.add_argument("--noise", choices=["fixed", "inputs"], default="fixed", help="noise of the layers (%(default)s)")
    one.add_argument("--truncation", type=float, default=1.0, metavar="PSI", help="1 is none (%(default)s)")
    one.add_argument("--batch", type=int, metavar="N", help="items at a time, always; free where left out")
    one.set_defaults(run=export)
    other = commands.add_parser("check", help="compare a file with OpenVINO's own run of the package")
    other.add_argument("package")
    other.add_argument("file")
    other.add_argument("--items", type=int, default=4, help="latents to compare (%(default)s)")
    other.set_defaults(run=check)
    last = commands.add_parser("render", help="images of the latents of samples, one by one")
    last.add_argument("file", help="the ONNX file of another size")
    last.add_argument("latents", help="latents.npy of `s2m sample --latents`")
    last.add_argument("out", help="a folder")
    last.add_argument("--first", type=int, metavar="N", help="only so many")
    last.set_defaults(run=render)
    options = parser.parse_args()
    if "size" in options and not 8 <= options.size <= SIDE:
        parser.error(f"--size is from 8 to {SIDE}")
    options.run(options)


if __name__ == "__main__":
    main()
