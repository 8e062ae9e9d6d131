"""The PyTorch side of the scoring benchmark: how many proposals a second, against PyTorch and bare ONNX Runtime?

    python peer_torch.py export DIR    write mlp-lenet.s2m and biggan-mobilenet.s2m (random weights, seed 0) into DIR
    python peer_torch.py serve DIR     answer timing requests on standard input, one JSON line for each, until `quit`
    python peer_torch.py check DIR     print how far PyTorch and ONNX Runtime are apart on the same latents

A request is `SIDE NET BATCH SECONDS`, SIDE being `torch` or `onnxruntime`, NET `mlp-lenet` or `biggan-mobilenet`:

    torch mlp-lenet 256 2.0
    {"side": "torch", "net": "mlp-lenet", "batch": 256, "proposals_per_second": ..., "variant": "..."}

`variant` is the form of the network that was timed (`torch` only). An unreadable request is answered {"error": ...}.

Both sides stay loaded, so that a driver can interleave them with our own program: on a shared machine only figures
taken close together can be compared. A `torch` request takes longer than SECONDS, because every variant of the network
is tried first to find the fastest.

The networks are untrained, which changes no speed: batch-norm statistics are those of the noise pushed through, and the
heads are scaled so that each logit has mean 0 and deviation 1 over the proposals.

The packages of ONNX are imported where they are needed: `peer_scoring.py` takes the networks from here without them.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse
from torch.nn import functional

SEED = 0
THREADS = 2
OPSET = 18
LOGITS = ["class_logits", "real_logit"]
CALIBRATION_BATCHES = 8
CALIBRATION_BATCH = 32
CHECK_BATCH = 64
WARM_UP_STEPS = 2
TRIAL_SECONDS = 0.2


# ---- MLP and LeNet5, 28 x 28 ----


class MlpGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh()
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z).reshape(-1, 1, 28, 28)


class Heads(nn.Module):
    """The last layer of a classifier: one logit per label, and one for real against generated."""

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.labels = nn.Linear(features, labels)
        self.real = nn.Linear(features, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.labels(features), self.real(features)


class LeNet5(nn.Module):
    def __init__(self, labels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        )  # fmt: skip
        self.heads = Heads(84, labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads(self.features(x))


# ---- BigGAN and MobileNetV2, 32 x 32 ----


def upsample(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


class UpBlock(nn.Module):
    """BigGAN's residual block: twice the side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(upsample(functional.relu(self.norm1(x))))
        h = self.conv2(functional.relu(self.norm2(h)))
        return h + self.shortcut(upsample(x))


class SelfAttention(nn.Module):
    """BigGAN's self-attention: queries from every pixel, keys and values from a map of half the side."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.channels, self.side = channels, side
        self.query = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.key = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.value = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.output = nn.Conv2d(channels // 2, channels, 1, bias=False)
        self.strength = nn.Parameter(torch.tensor(0.1))

    def forward(self, x: Tensor) -> Tensor:
        pixels, pooled = self.side**2, self.side**2 // 4
        query = self.query(x).reshape(-1, self.channels // 8, pixels)
        key = functional.max_pool2d(self.key(x), 2).reshape(-1, self.channels // 8, pooled)
        value = functional.max_pool2d(self.value(x), 2).reshape(-1, self.channels // 2, pooled)
        attention = torch.softmax(query.transpose(1, 2) @ key, dim=2)
        mixed = (value @ attention.transpose(1, 2)).reshape(-1, self.channels // 2, self.side, self.side)
        return x + self.strength * self.output(mixed)


class BigGan32(nn.Module):
    """Unconditional BigGAN for 32 x 32, self-attention at 16 x 16."""

    def __init__(self, base_channels: int = 96) -> None:
        super().__init__()
        self.channels = 4 * base_channels
        self.first = nn.Linear(80, self.channels * 4 * 4)
        self.blocks = nn.Sequential(
            UpBlock(self.channels, self.channels),
            UpBlock(self.channels, self.channels),
            SelfAttention(self.channels, side=16),
            UpBlock(self.channels, self.channels),
        )
        self.last = nn.Sequential(
            nn.BatchNorm2d(self.channels), nn.ReLU(), nn.Conv2d(self.channels, 3, 3, padding=1), nn.Tanh()
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.last(self.blocks(self.first(z).reshape(-1, self.channels, 4, 4)))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand = [*convolution(inputs, hidden, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        depthwise = [*convolution(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*expand, *depthwise, *convolution(hidden, outputs, 1))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 for 32 x 32: first convolution and second stage keep the side."""

    # (expansion, channels, blocks, stride of the first block)
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, labels: int) -> None:
        super().__init__()
        layers, channels = [*convolution(3, 32, 3), nn.ReLU6(inplace=True)], 32
        for expansion, outputs, blocks, first_stride in self.STAGES:
            for block in range(blocks):
                layers.append(InvertedResidual(channels, outputs, first_stride if block == 0 else 1, expansion))
                channels = outputs
        self.features = nn.Sequential(*layers, *convolution(channels, 1280, 1), nn.ReLU6(inplace=True))
        self.heads = Heads(1280, labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.heads(self.features(x).mean((2, 3)))


# ---- The two pairs ----


@dataclass(frozen=True)
class Net:
    """A generator and a classifier that are scored together."""

    name: str
    latent: int
    shape: tuple[int, int, int]
    labels: str
    observed: list[float]
    generator: Callable[[], nn.Module]
    classifier: Callable[[int], nn.Module]


NETS = {
    net.name: net
    for net in (
        Net("mlp-lenet", 100, (1, 28, 28), "AB", [0.5, 0.5], MlpGenerator, LeNet5),
        Net("biggan-mobilenet", 80, (3, 32, 32), "ABC", [0.5, 0.25, 0.25], BigGan32, MobileNetV2),
    )
}


def quantise(x: Tensor) -> Tensor:
    """Rounds pictures in [-1, 1] to 8 bits, in place, as the scoring graph does."""
    return x.add_(1.0).mul_(127.5).round_().clamp_(0.0, 255.0).div_(127.5).sub_(1.0)


class Scorer(nn.Module):
    """One proposal step: latents to the two logits."""

    def __init__(self, generator: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.classifier = classifier

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.classifier(quantise(self.generator(z)))


def build(net: Net) -> Scorer:
    return Scorer(net.generator(), net.classifier(len(net.labels))).eval()


@torch.no_grad()
def randomise(scorer: Scorer, latent: int) -> None:
    """Draws the weights so that no activation is degenerate; see the head of the file."""
    torch.manual_seed(SEED)
    for module in scorer.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, mean=1.0, std=0.1)
            module.momentum = None  # running statistics become plain averages
        if getattr(module, "bias", None) is not None:
            nn.init.normal_(module.bias, std=0.1)
    scorer.train()
    for _ in range(CALIBRATION_BATCHES):
        scorer(torch.randn(CALIBRATION_BATCH, latent))
    scorer.eval()
    z = torch.randn(CALIBRATION_BATCHES * CALIBRATION_BATCH, latent)
    heads = scorer.classifier.heads
    for head, logits in zip((heads.labels, heads.real), scorer(z), strict=True):
        head.weight /= logits.std(0)[:, None]
        head.bias -= logits.mean(0) / logits.std(0)


# ---- export ----


def export_network(
    network: nn.Module, example: Tensor, inputs: str, outputs: dict[str, Sequence[int]], path: Path
) -> str:
    """Writes one ONNX file and returns its SHA-256. `outputs` gives the shape of each output without the batch."""
    import onnx
    from onnx import TensorProto, helper

    with warnings.catch_warnings():
        # The classic exporter is deprecated, but needs no further package and writes neither functions nor side files.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            network, (example,), str(path), dynamo=False, opset_version=OPSET, input_names=[inputs],
            output_names=list(outputs), dynamic_axes={name: {0: "n"} for name in [inputs, *outputs]},
        )  # fmt: skip
    model = onnx.load(path)
    # The exporter cannot see through a reshape: it leaves made-up names for sizes that are known, even a second `n`.
    del model.graph.output[:]
    for name, shape in outputs.items():
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]))
    onnx.save(model, path)
    onnx.checker.check_model(str(path), full_check=True)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest(net: Net, generator_sha256: str, classifier_sha256: str) -> str:
    import onnx

    describe = ", ".join(f'{label} = "label {label} of an untrained classifier"' for label in net.labels)
    picture = f'name = "x", layout = "NCHW", shape = {list(net.shape)}, range = [-1.0, 1.0]'
    return f"""format = 1
name = "{net.name}"
labels = {json.dumps(list(net.labels))}
describe = {{ {describe} }}

[labelling]
model = "one-of"
weights = {[1.0] * len(net.labels)}
observed = {net.observed}

[generator]
file = "generator.onnx"
sha256 = "{generator_sha256}"
latents = [{{ input = "z", shape = [{net.latent}], prior = "normal" }}]
output = {{ {picture}, bits = 8 }}

[classifier]
file = "classifier.onnx"
sha256 = "{classifier_sha256}"
input = {{ {picture} }}
outputs = {{ class = "class_logits", real = "real_logit" }}

[calibration]
temperature = {{ class = 1.0, fake_class = 1.0, real = 1.0 }}
odds_clip = 6001.0
margin = {{ default = 1.0 }}
floor = 0.0

[provenance]
data = "none: random weights, for timing only"
licence = "MIT OR Apache-2.0"
recipe = "python benches/peer_torch.py export"
seed = {SEED}
versions = "torch {torch.__version__}, onnx {onnx.__version__}"
"""


def export(directory: Path) -> None:
    for net in NETS.values():
        bundle = directory / f"{net.name}.s2m"
        bundle.mkdir(parents=True, exist_ok=True)
        scorer = build(net)
        randomise(scorer, net.latent)
        torch.save(scorer.state_dict(), directory / f"{net.name}.pt")
        generator, classifier = bundle / "generator.onnx", bundle / "classifier.onnx"
        z, x = torch.randn(2, net.latent), torch.randn(2, *net.shape)
        logits = dict(zip(LOGITS, ([len(net.labels)], [1]), strict=True))
        generator_sha256 = export_network(scorer.generator, z, "z", {"x": net.shape}, generator)
        classifier_sha256 = export_network(scorer.classifier, x, "x", logits, classifier)
        (bundle / "model.toml").write_text(manifest(net, generator_sha256, classifier_sha256))
        print(f"{bundle}: generator {generator.stat().st_size} bytes, classifier {classifier.stat().st_size} bytes")


# ---- the two sides ----


def load(directory: Path, net: Net) -> Scorer:
    scorer = build(net)
    scorer.load_state_dict(torch.load(directory / f"{net.name}.pt", weights_only=True))
    return scorer


def variants(scorer: Scorer) -> dict[str, Scorer]:
    """The same network in the forms in which eager PyTorch may be fastest.

    The peer must be at its best, so the fastest form is taken for each batch. Folding batch norms into convolutions
    is among them because the ONNX exporter does it too.
    """
    forms = {"plain": scorer}
    if any(isinstance(module, nn.BatchNorm2d) for module in scorer.modules()):
        forms["folded"] = Scorer(fuse(scorer.generator), fuse(scorer.classifier)).eval()
    return forms | {
        f"{name}, channels_last": copy.deepcopy(form).to(memory_format=torch.channels_last)
        for name, form in forms.items()
    }


def joined_session(directory: Path, net: Net) -> onnxruntime.InferenceSession:
    """Generator, quantisation and classifier in one graph, from `z` to the two logits."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    bundle = directory / f"{net.name}.s2m"
    generator, classifier = onnx.load(bundle / "generator.onnx"), onnx.load(bundle / "classifier.onnx")
    generator = onnx.compose.add_prefix(generator, "generator/", rename_inputs=False)
    classifier = onnx.compose.add_prefix(classifier, "classifier/", rename_outputs=False)
    value = generator.graph.output[0].name
    steps = {"Add": [1.0], "Mul": [127.5], "Round": [], "Clip": [0.0, 255.0], "Div": [127.5], "Sub": [1.0]}
    for operator, operands in steps.items():
        names = [f"quantise/{operator}/{operand}" for operand in operands]
        for name, operand in zip(names, operands, strict=True):
            generator.graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [], [operand]))
        generator.graph.node.append(helper.make_node(operator, [value, *names], [f"quantise/{operator}"]))
        value = f"quantise/{operator}"
    generator.graph.output[0].name = value
    joined = onnx.compose.merge_models(generator, classifier, io_map=[(value, classifier.graph.input[0].name)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(joined.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Peer:
    """Both sides of every net, loaded when first asked for and kept."""

    def __init__(self, directory: Path) -> None:
        self.variants = functools.cache(lambda net: variants(load(directory, NETS[net])))
        self.session = functools.cache(lambda net: joined_session(directory, NETS[net]))
        self.shortest_steps: dict[tuple[str, int, str], float] = {}

    def torch_step(self, net: str, batch: int, variant: str) -> Callable[[], object]:
        scorer, latent = self.variants(net)[variant], NETS[net].latent

        def step() -> float:
            class_logits, real_logit = scorer(torch.randn(batch, latent))
            return class_logits.sum().item() + real_logit.sum().item()

        return torch.inference_mode()(step)

    def onnxruntime_step(self, net: str, batch: int) -> Callable[[], object]:
        session, z = self.session(net), torch.randn(batch, NETS[net].latent).numpy()
        return lambda: session.run(LOGITS, {"z": z})

    def fastest(self, net: str, batch: int) -> str:
        """The variant with the shortest step of all requests so far: one trial while others use the machine may err,
        and must not decide for good."""

        def shortest_step(variant: str) -> float:
            times = step_times(self.torch_step(net, batch, variant), TRIAL_SECONDS)
            key = (net, batch, variant)
            self.shortest_steps[key] = min(*times, self.shortest_steps.get(key, math.inf))
            return self.shortest_steps[key]

        return min(self.variants(net), key=shortest_step)

    def answer(self, side: str, net: str, batch: int, seconds: float) -> dict[str, object]:
        if net not in NETS or side not in ("torch", "onnxruntime") or batch < 1:
            raise ValueError("wanted `torch|onnxruntime mlp-lenet|biggan-mobilenet BATCH SECONDS`, BATCH at least 1")
        variant = self.fastest(net, batch) if side == "torch" else None
        step = self.torch_step(net, batch, variant) if side == "torch" else self.onnxruntime_step(net, batch)
        times = step_times(step, seconds)
        rate = batch * len(times) / sum(times)
        answer = {"side": side, "net": net, "batch": batch, "proposals_per_second": rate}
        return answer | ({"variant": variant} if variant else {})


def step_times(step: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each step, at least one, after a warm-up, until they add up to `seconds`."""
    for _ in range(WARM_UP_STEPS):
        step()
    times, total = [], 0.0
    while total < seconds or not times:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
        total += times[-1]
    return times


# ---- serve and check ----


def serve(directory: Path) -> None:
    peer = Peer(directory)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        try:
            side, net, batch, seconds = words
            answer = peer.answer(side, net, int(batch), float(seconds))
        except ValueError as error:
            answer = {"error": f"{line.strip()!r}: {error}"}
        print(json.dumps(answer), flush=True)


@torch.inference_mode()
def check(directory: Path) -> None:
    """Prints the largest absolute differences between PyTorch, in every variant, and ONNX Runtime.

    A pixel on the edge between two grey levels may be rounded up by one side and down by the other. Such pictures are
    counted, and logits are compared over the others as well as over all.
    """
    import onnxruntime

    peer = Peer(directory)
    for net in NETS.values():
        torch.manual_seed(SEED + 1)
        z = torch.randn(CHECK_BATCH, net.latent)
        file = directory / f"{net.name}.s2m" / "generator.onnx"
        generator = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        their_x = torch.from_numpy(generator.run(["x"], {"z": z.numpy()})[0])
        their_outputs = peer.session(net.name).run(LOGITS, {"z": z.numpy()})
        their_logits = torch.cat([torch.from_numpy(output) for output in their_outputs], 1)
        for name, scorer in peer.variants(net.name).items():
            x, logits = scorer.generator(z), torch.cat(scorer(z), 1)
            assert x.shape == their_x.shape and logits.shape == their_logits.shape
            difference = (logits - their_logits).abs().amax(1)
            alike = (quantise(x.clone()) == quantise(their_x.clone())).flatten(1).all(1)
            report = {
                "net": net.name,
                "variant": name,
                "pictures": CHECK_BATCH,
                "largest_pixel_difference": (x - their_x).abs().max().item(),
                "pictures_rounded_alike": int(alike.sum()),
                "largest_logit_difference_of_those": difference[alike].max().item(),
                "largest_logit_difference": difference.max().item(),
                "pixel_deviation": round(x.std(0).mean().item(), 3),
                "logit_deviations": [round(deviation, 3) for deviation in logits.std(0).tolist()],
            }
            print(json.dumps(report), flush=True)


def keep_freed_memory() -> None:
    """Tells glibc to keep freed memory.

    By default every large activation is mapped anew and faulted in page by page. Keeping it makes PyTorch 1.1 times as
    fast on the BigGAN pair at batch 32 and 1.4 times on the MLP pair at batch 1024 and 2048; ONNX Runtime has its own
    arena and does not change. The peer must be at its best.
    """
    mmap_max, trim_threshold = -4, -1  # M_MMAP_MAX and M_TRIM_THRESHOLD of malloc.h
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, -1)


def main() -> None:
    commands = {"export": export, "serve": serve, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    keep_freed_memory()
    torch.set_num_threads(THREADS)
    commands[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
