"""BigGAN's networks in PyTorch, for the values in `src/networks/biggan/tests.rs`.

Made with PyTorch 2.11.0 on a CPU: `python3 biggan.py` prints, for every network, single numbers of its output, the
mean and the standard deviation of all, and the number of its weights. Spectral norm and batch norm are PyTorch's own.
"""
import torch
from torch import nn
import torch.nn.functional as F
def sn(layer):
    return nn.utils.spectral_norm(layer, eps=1e-6)
def conv(a, b, k, bias=True):
    return sn(nn.Conv2d(a, b, k, padding=k // 2, bias=bias))
class Norm(nn.Module):
    def __init__(self, c, y):
        super().__init__()
        self.scale, self.shift = sn(nn.Linear(y, c, bias=False)), sn(nn.Linear(y, c, bias=False))
        self.norm = nn.BatchNorm2d(c, eps=1e-4, affine=False)
    def forward(self, x, y):
        return self.norm(x) * (1 + self.scale(y))[:, :, None, None] + self.shift(y)[:, :, None, None]
class Up(nn.Module):
    def __init__(self, a, b, y):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2, self.s = Norm(a, y), conv(a, b, 3), Norm(b, y), conv(b, b, 3), conv(a, b, 1)
    def forward(self, x, y):
        h = self.c1(F.interpolate(F.relu(self.n1(x, y)), scale_factor=2))
        return self.c2(F.relu(self.n2(h, y))) + self.s(F.interpolate(x, scale_factor=2))
class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.q, self.k, self.v, self.o = [conv(a, b, 1, False) for a, b in [(c, c // 8), (c, c // 8), (c, c // 2), (c // 2, c)]]
        self.strength = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        q, k, v = self.q(x).flatten(2), F.max_pool2d(self.k(x), 2).flatten(2), F.max_pool2d(self.v(x), 2).flatten(2)
        share = torch.softmax(q.transpose(1, 2) @ k, -1)
        return x + self.strength * self.o((v @ share.transpose(1, 2)).view(len(x), -1, *x.shape[2:]))
class Generator(nn.Module):
    def __init__(self, widths, chunk, codes, shared, colours):
        super().__init__()
        if codes:
            self.shared = nn.Parameter(torch.zeros(codes, shared))
        self.first, y = sn(nn.Linear(chunk, 16 * widths[0])), chunk + (shared if codes else 0)
        self.blocks = nn.ModuleList([Up(a, b, y) for a, b in zip(widths, widths[1:])])
        self.attention = Attention(widths[-2])
        self.norm, self.last = nn.BatchNorm2d(widths[-1], eps=1e-4), conv(widths[-1], colours, 3)
    def forward(self, z, code=None):
        z = z.chunk(len(self.blocks) + 1, 1)
        x = self.first(z[0]).view(len(z[0]), -1, 4, 4)
        for n, block in enumerate(self.blocks):
            if n + 1 == len(self.blocks):
                x = self.attention(x)
            x = block(x, z[n + 1] if code is None else torch.cat([code @ self.shared, z[n + 1]], 1))
        return torch.tanh(self.last(F.relu(self.norm(x))))
class Down(nn.Module):
    def __init__(self, a, b, halves, first):
        super().__init__()
        self.c1, self.c2, self.halves, self.first = conv(a, b, 3), conv(b, b, 3), halves, first
        self.s = conv(a, b, 1) if halves or a != b else None
    def forward(self, x):
        h = self.c2(F.relu(self.c1(x if self.first else F.relu(x))))
        s = self.s(x) if self.s else x
        return F.avg_pool2d(h, 2) + F.avg_pool2d(s, 2) if self.halves else h + s
class Critic(nn.Module):
    def __init__(self, widths, halving, head, classes):
        super().__init__()
        self.blocks = nn.ModuleList([Down(a, b, n < halving, n == 0) for n, (a, b) in enumerate(zip(widths, widths[1:]))])
        self.attention, self.score, self.head = Attention(widths[1]), sn(nn.Linear(widths[-1], 1)), head
        if head == 'projection':
            self.projection = sn(nn.Linear(widths[-1], classes, bias=False))
        if head == 'class':
            self.classes = sn(nn.Linear(widths[-1], classes))
    def forward(self, x, code=None):
        for n, block in enumerate(self.blocks):
            x = block(x)
            if n == 0:
                x = self.attention(x)
        h = F.relu(x).sum((2, 3))
        if self.head == 'projection':
            return self.score(h)[:, 0] + (code * self.projection(h)).sum(1), None
        return self.score(h)[:, 0], self.classes(h) if self.head == 'class' else None
def numbers(t, *shape):
    k = torch.arange(torch.Size(shape).numel())
    return ((k * (k + 17) * 31 + t * 7919) % 4099 / 2049.5 - 1).float().view(shape)
def tensors(m):     # in the order in which they are saved
    own = [] if not isinstance(m, (Attention, Generator)) else [('strength', m.strength)] if isinstance(m, Attention) else [('weight', m.shared)] if hasattr(m, 'shared') else []
    if isinstance(m, nn.BatchNorm2d):
        own = [('scale', m.weight), ('bias', m.bias)] if m.affine else []
        own += [('mean', m.running_mean), ('var', m.running_var)]
    if hasattr(m, 'weight_orig'):
        own = [('weight', m.weight_orig)] + ([('bias', m.bias)] if m.bias is not None else []) + [('u', m.weight_u)]
    inner = [pair for child in m.children() for pair in tensors(child)]
    return inner + own if isinstance(m, Attention) else own + inner
def fill(net):
    for t, (kind, x) in enumerate(tensors(net)):
        n = numbers(t, *x.shape)
        x.data = {'weight': lambda: n * n[0].numel() ** -0.5, 'bias': lambda: 0.1 * n, 'mean': lambda: 0.1 * n, 'var': lambda: 1 + 0.1 * n,
            'scale': lambda: 1 + 0.1 * n, 'u': lambda: F.normalize(n, dim=0), 'strength': lambda: 0 * n + 0.5}[kind]()
    return net
def show(name, y):
    flat = y.flatten()
    found = [flat[0].item(), flat[777 % len(flat)].item(), flat[-1].item(), flat.double().mean().item(), flat.double().std().item()]
    print(name, [round(value, 8) for value in found])
def count(net):
    return sum(p.numel() for p in net.parameters())
if __name__ == '__main__':
    torch.set_grad_enabled(False)
    code = torch.tensor([[1, 0, 0], [0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [0, 0, 1]])
    for side, widths, codes in (32, [8] * 4, 0), (64, [64, 32, 16, 8, 4], 0), (32, [8] * 4, 3):
        z, given = numbers(1000, 4, 5 * len(widths)), code if codes else None
        for mode in 'batch', 'kept':
            net = fill(Generator(widths, 5, codes, 6, 3)).train()
            for m in net.modules():
                if isinstance(m, nn.BatchNorm2d):
                    m.train(mode == 'batch')
            show(f'generator {side} codes {codes} {mode} {count(net)}', net(z, given))
    for side, head in (32, 'score'), (32, 'projection'), (64, 'class'):
        widths, halving = {32: ([3, 8, 8, 8, 8], 2), 64: ([3, 8, 16, 32, 64, 128], 4)}[side]
        net, x = fill(Critic(widths, halving, head, 3)).train(), numbers(1000, 4, 3, side, side)
        score, logits = net(x, code)
        show(f'critic {side} {head} {count(net)}', score)
        if logits is not None:
            show('class', logits)
        show('after one more power step', net(x, code)[0])
