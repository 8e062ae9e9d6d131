"""The U-Net of flows in PyTorch, for the values in `src/networks/unet/tests.rs`.

Made with PyTorch 2.11.0 on a CPU: `python3 unet.py` prints, for two networks, the number of their weights, then single
numbers of the velocity and of the images that latents flow to, with the mean and the standard deviation of all.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def conv(a, b, k, stride=1):
    return nn.Conv2d(a, b, k, stride, k // 2)


def norm(c):
    return nn.GroupNorm(8, c, eps=1e-5)


class Block(nn.Module):
    def __init__(self, a, b, time):
        super().__init__()
        self.norm1, self.conv1, self.time = norm(a), conv(a, b, 3), nn.Linear(time, b)
        self.norm2, self.conv2 = norm(b), conv(b, b, 3)
        self.short = conv(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.short(x)


class UNet(nn.Module):
    def __init__(self, colours, side, c):
        super().__init__()
        self.time1, self.time2, self.half = nn.Linear(c, 4 * c), nn.Linear(4 * c, 4 * c), c // 2
        self.first, wide, kept, layers = conv(colours, c, 3), c, [], []
        widths = [c]
        while side > 8:
            side //= 2
            widths.append(2 * c)
        for n, to in enumerate(widths):
            if n:
                layers.append(("halve", conv(wide, wide, 3, 2)))
            for _ in range(2):
                layers.append(("down", Block(wide, to, 4 * c)))
                kept.append(to)
                wide = to
        layers.append(("middle", Block(wide, wide, 4 * c)))
        for n, to in reversed(list(enumerate(widths))):
            for _ in range(2):
                layers.append(("up", Block(wide + kept.pop(), to, 4 * c)))
                wide = to
            if n:
                layers.append(("double", conv(wide, wide, 3)))
        self.kinds, self.layers = [k for k, _ in layers], nn.ModuleList([m for _, m in layers])
        self.norm, self.last = norm(c), conv(c, colours, 3)

    def forward(self, x, t):
        slower = torch.exp(torch.arange(self.half, dtype=x.dtype) * -math.log(10000) / self.half)
        angles = t[:, None] * slower * 1000
        time = F.silu(self.time1(torch.cat([angles.cos(), angles.sin()], 1)))
        time = F.silu(self.time2(time))
        x, kept = self.first(x), []
        for kind, layer in zip(self.kinds, self.layers):
            if kind == "up":
                x = torch.cat([x, kept.pop()], 1)
            if kind == "double":
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = layer(x) if kind in ("halve", "double") else layer(x, time)
            if kind == "down":
                kept.append(x)
        return self.last(F.silu(self.norm(x)))

    def flow(self, x, steps):
        for k in range(steps):
            x = x + self(x, torch.full((len(x),), k / steps)) / steps
        return x.clamp(-1, 1)


def numbers(t, shape):
    k = torch.arange(math.prod(shape))
    return (((k * (k + 17) * 31 + t * 7919) % 4099).double() / 2049.5 - 1).float().view(shape)


def show(y):
    y = y.double().reshape(-1)
    print([round(v, 8) for v in [y[0], y[777 % len(y)], y[-1], y.mean(), y.std()] for v in [v.item()]])


with torch.no_grad():
    for colours, side, channels, steps in [(3, 16, 16, 3), (1, 28, 16, 2)]:
        net = UNet(colours, side, channels)
        # In the order of the network's list of weights.
        order = [net.time1, net.time2, net.first]
        for kind, layer in zip(net.kinds, net.layers):
            if isinstance(layer, Block):
                order += [layer.norm1, layer.conv1, layer.time, layer.norm2, layer.conv2]
                order += [layer.short] if isinstance(layer.short, nn.Conv2d) else []
            else:
                order.append(layer)
        order += [net.norm, net.last]
        for n, layer in enumerate(order):
            own = numbers(2 * n, tuple(layer.weight.shape))
            if isinstance(layer, nn.GroupNorm):
                layer.weight.copy_(own * 0.1 + 1)
            else:
                layer.weight.copy_(own / math.sqrt(own[0].numel()))
            layer.bias.copy_(numbers(2 * n + 1, tuple(layer.bias.shape)) * 0.1)
        print(sum(p.numel() for p in net.parameters()))
        x = numbers(1000, (4, colours, side, side))
        show(net(x, torch.tensor([0.0, 0.25, 0.5, 0.9])))
        show(net.flow(x, steps))
