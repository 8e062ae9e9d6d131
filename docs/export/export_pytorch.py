"""Three generators in PyTorch and how each becomes a file that `s2m fit` takes.

    python export_pytorch.py dcgan|style|diffusion OUT.onnx

The networks are small and untrained: load your own weights where `seeded` stands. What matters is the last
function. All randomness must come in as inputs, everything else is a constant of the file, and the first axis
of every input and output is the batch.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Dcgan(nn.Module):
    """Plain transposed convolutions from 100 numbers to a 32 by 32 picture in colour."""

    def __init__(self):
        super().__init__()
        sizes = [(100, 128, 4, 1, 0), (128, 64, 4, 2, 1), (64, 32, 4, 2, 1)]
        layers = []
        for inputs, outputs, kernel, stride, padding in sizes:
            layers += [nn.ConvTranspose2d(inputs, outputs, kernel, stride, padding, bias=False),
                       nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.layers(z[:, :, None, None])


class Style(nn.Module):
    """A mapping network, styles that scale channels, and fresh noise for every layer.

    A generator that draws its noise inside would give other pictures for the same proposal: the
    noise of each layer is an input of its own.
    """

    def __init__(self):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64))
        self.start = nn.Parameter(torch.randn(1, 64, 4, 4))
        self.convolutions = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1) for _ in range(3)])
        self.styles = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.strengths = nn.Parameter(torch.full((3,), 0.1))
        self.colour = nn.Conv2d(64, 3, 1)

    def forward(self, z, noise8, noise16, noise32):
        w = self.mapping(z)
        x = self.start.expand(z.shape[0], -1, -1, -1)
        layers = zip(self.convolutions, self.styles, (noise8, noise16, noise32))
        for n, (convolution, style, noise) in enumerate(layers):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = convolution(x * (1 + style(w)[:, :, None, None]))
            x = F.leaky_relu(x + self.strengths[n] * noise, 0.2)
        return torch.tanh(self.colour(x))


class Diffusion(nn.Module):
    """Four steps of a deterministic sampler around a small network: the loop is unrolled into the file."""

    def __init__(self, steps=4):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.SiLU(),
                                     nn.Conv2d(32, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 3, 3, padding=1))
        self.times = [1 - step / steps for step in range(steps + 1)]

    def forward(self, z):
        x = z
        for now, then in zip(self.times, self.times[1:]):
            time = torch.full_like(x[:, :1], now)
            clean = torch.tanh(self.network(torch.cat([x, time], 1)))
            x = clean + (then / now) * (x - clean)
        return x


def seeded(network):
    torch.manual_seed(0)
    return network()


GENERATORS = {
    "dcgan": (Dcgan, {"z": (100,)}),
    "style": (Style, {"z": (64,), "noise8": (1, 8, 8), "noise16": (1, 16, 16), "noise32": (1, 32, 32)}),
    "diffusion": (Diffusion, {"z": (3, 32, 32)}),
}


def export(kind, path):
    network, inputs = GENERATORS[kind]
    generator = seeded(network).eval()
    noise = tuple(torch.randn(2, *shape) for shape in inputs.values())
    axes = {name: {0: "n"} for name in [*inputs, "x"]}
    torch.onnx.export(generator, noise, path, input_names=list(inputs), output_names=["x"],
                      dynamic_axes=axes, opset_version=17, dynamo=False)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in GENERATORS:
        sys.exit(__doc__)
    export(sys.argv[1], sys.argv[2])
