# BigGAN-32 iterations per second: s2m-train against the same loop in PyTorch with one CUDA graph per iteration,
# turn by turn in one run. An iteration is four critic steps and one generator step.
# Usage: peer_biggan.py S2M-TRAIN cpu|cuda STEPS [CHANNELS CRITIC-CHANNELS]
# The data are random pictures in CIFAR-10's form: the speed does not depend on what they show. Both start up first:
# what is counted is the difference between a long run and a short one.
import json, random, subprocess, sys, tempfile, time

import torch
import torch.nn as nn
import torch.nn.functional as F

program, device, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
channels, critic_channels = (int(n) for n in sys.argv[4:6]) if len(sys.argv) > 5 else (64, 96)
BATCH, LATENT, CRITIC_STEPS, ROUNDS = 64, 80, 4, 2
short = steps // 4
cuda = device == "cuda"
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True


def write_pictures(folder):
    random.seed(0)
    for name in [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]:
        with open(f"{folder}/{name}.bin", "wb") as file:
            for n in range(1000):
                file.write(bytes([n % 10]) + random.randbytes(3072))


def seconds_of_ours(folder, steps, turn):
    run = f"{folder}/run.toml"
    with open(run, "w") as file:
        file.write(f"""seeds = [0]
steps = {steps}
batch = {BATCH}
ema = 0.999
precision = "{'bf16' if cuda else 'float32'}"
log-every = {steps}
checkpoint-every = {steps}
grid-every = {steps}
objective = {{ kind = "hinge", critic-steps = {CRITIC_STEPS} }}
optimizer = {{ kind = "adam", learning-rate = 2e-4, beta1 = 0.5, beta2 = 0.999 }}
network = {{ kind = "biggan", latent = {LATENT}, channels = {channels}, critic-channels = {critic_channels} }}
regularise = {{ flip = true, diff-augment = ["shift", "cutout"] }}
[[data]]
name = "random"
source = {{ format = "cifar10", folder = "{folder}" }}
classes = [{{ name = "A", of = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }}]
labelling = {{ model = "one-of" }}
""")
    out = f"{folder}/out-{steps}-{turn}"
    subprocess.run([program, "gan", run, "--out", out, "--device", device], check=True, stderr=subprocess.DEVNULL)
    with open(f"{out}/done.json") as file:
        return json.load(file)["seconds"]


def ours(folder, turn):
    return (steps - short) / (seconds_of_ours(folder, steps, turn) - seconds_of_ours(folder, short, turn))


class Normed(nn.Module):
    """A layer whose weight is divided by its largest singular value, one power step each time in training."""

    def __init__(self, layer):
        super().__init__()
        nn.init.orthogonal_(layer.weight)
        self.layer = layer
        self.register_buffer("u", F.normalize(torch.randn(layer.weight.shape[0]), dim=0))

    def weight(self):
        flat = self.layer.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(flat.t() @ self.u, dim=0, eps=1e-6)
            self.u.copy_(F.normalize(flat @ v, dim=0, eps=1e-6))
        return self.layer.weight / torch.dot(self.u.clone(), flat @ v)

    def forward(self, x):
        with torch.autocast(device, enabled=False):
            weight = self.weight()
        if weight.dim() == 2:
            return F.linear(x, weight, self.layer.bias)
        return F.conv2d(x, weight, self.layer.bias, padding=weight.shape[2] // 2)


def conv(a, b, size=3):
    return Normed(nn.Conv2d(a, b, size))


class Norm(nn.Module):
    def __init__(self, width, condition):
        super().__init__()
        self.norm = nn.BatchNorm2d(width, eps=1e-4, affine=False)
        self.scale, self.shift = (Normed(nn.Linear(condition, width, bias=False)) for _ in range(2))

    def forward(self, x, y):
        scale, shift = self.scale(y)[:, :, None, None], self.shift(y)[:, :, None, None]
        return self.norm(x) * (1 + scale) + shift


class Up(nn.Module):
    def __init__(self, a, b, condition):
        super().__init__()
        self.norms = nn.ModuleList([Norm(a, condition), Norm(b, condition)])
        self.convs = nn.ModuleList([conv(a, b), conv(b, b)])
        self.beside = conv(a, b, 1)

    def forward(self, x, y):
        h = F.interpolate(F.relu(self.norms[0](x, y)), scale_factor=2)
        h = self.convs[1](F.relu(self.norms[1](self.convs[0](h), y)))
        return h + F.interpolate(self.beside(x), scale_factor=2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        width, part = 4 * channels, LATENT // 4
        self.width = width
        self.first = Normed(nn.Linear(part, 16 * width))
        self.blocks = nn.ModuleList([Up(width, width, part) for _ in range(3)])
        self.norm, self.last = nn.BatchNorm2d(width, eps=1e-4), conv(width, 3)

    def forward(self, z):
        first, *parts = z.chunk(4, 1)
        x = self.first(first).view(-1, self.width, 4, 4).contiguous(memory_format=torch.channels_last)
        for block, part in zip(self.blocks, parts):
            x = block(x, part)
        return torch.tanh(self.last(F.relu(self.norm(x))).float())


class Down(nn.Module):
    def __init__(self, a, b, halve, first=False):
        super().__init__()
        self.convs, self.halve, self.first = nn.ModuleList([conv(a, b), conv(b, b)]), halve, first
        self.beside = conv(a, b, 1) if halve or a != b else None

    def forward(self, x):
        h = self.convs[1](F.relu(self.convs[0](x if self.first else F.relu(x))))
        pool = (lambda t: F.avg_pool2d(t, 2)) if self.halve else (lambda t: t)
        beside = x if self.beside is None else self.beside(pool(x)) if self.first else pool(self.beside(x))
        return pool(h) + beside


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        width = 2 * critic_channels
        blocks = [Down(3, width, True, True), Down(width, width, True), Down(width, width, False), Down(width, width, False)]
        self.blocks, self.last = nn.Sequential(*blocks), Normed(nn.Linear(width, 1))

    def forward(self, x):
        return self.last(F.relu(self.blocks(x)).sum((2, 3))).float().squeeze(1)


def augmented(x):
    """Shifted by up to an eighth, with a square of half the side cut out, each picture by itself."""
    n, side = x.shape[0], x.shape[2]
    at = torch.arange(side, device=x.device)
    rows, columns = (torch.randint(-side // 8, side // 8 + 1, (n, 1), device=x.device) for _ in range(2))
    y, z = (at + rows), (at + columns)
    inside = ((y >= 0) & (y < side))[:, None, :, None] & ((z >= 0) & (z < side))[:, None, None, :]
    picture = torch.arange(n, device=x.device)[:, None, None]
    x = x.permute(0, 2, 3, 1)[picture, y.clamp(0, side - 1)[:, :, None], z.clamp(0, side - 1)[:, None, :]].permute(0, 3, 1, 2) * inside
    top, left = (torch.randint(0, side + 1, (n, 1), device=x.device) - side // 4 for _ in range(2))
    cut = lambda first: (at >= first) & (at < first + side // 2)
    return x * ~(cut(top)[:, None, :, None] & cut(left)[:, None, None, :])


def pytorch():
    torch.manual_seed(0)
    data = (torch.rand(4500, 3, 32, 32, device=device) * 2 - 1).contiguous(memory_format=torch.channels_last)
    generator, critic = (net.to(device, memory_format=torch.channels_last) for net in (Generator(), Critic()))
    average = [p.detach().clone() for p in generator.parameters()]
    optimizers = [
        torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=cuda, capturable=cuda) for net in (generator, critic)
    ]
    cast = lambda: torch.autocast(device, torch.bfloat16, enabled=cuda, cache_enabled=False)

    def iteration():
        for _ in range(CRITIC_STEPS):
            real = data[torch.randint(0, len(data), (BATCH,), device=device)]
            flip = torch.rand(BATCH, 1, 1, 1, device=device) < 0.5
            real = torch.where(flip, real.flip(3), real)
            with cast():
                with torch.no_grad():
                    made = generator(torch.randn(BATCH, LATENT, device=device))
                scores = critic(augmented(torch.cat([real, made])))
            loss = F.relu(1 - scores[:BATCH]).mean() + F.relu(1 + scores[BATCH:]).mean()
            optimizers[1].zero_grad(set_to_none=True)
            loss.backward()
            optimizers[1].step()
        with cast():
            loss = -critic(augmented(generator(torch.randn(BATCH, LATENT, device=device)))).mean()
        optimizers[0].zero_grad(set_to_none=True)
        loss.backward()
        optimizers[0].step()
        torch._foreach_lerp_(average, [p.detach() for p in generator.parameters()], 0.001)

    if not cuda:
        iteration()
        begin = time.perf_counter()
        for _ in range(steps):
            iteration()
        return steps / (time.perf_counter() - begin)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            iteration()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        iteration()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        graph.replay()
    torch.cuda.synchronize()
    return steps / (time.perf_counter() - begin)


with tempfile.TemporaryDirectory() as folder:
    write_pictures(folder)
    found = {"s2m-train": [], "PyTorch": []}
    for turn in range(ROUNDS):
        found["s2m-train"].append(ours(folder, turn))
        found["PyTorch"].append(pytorch())
best = {name: max(rates) for name, rates in found.items()}
print(f"BigGAN-32, batch {BATCH}, {CRITIC_STEPS} critic steps, widths {4 * channels} and {2 * critic_channels}, {device}, PyTorch {torch.__version__}")
for name, rate in best.items():
    print(f"  {name:10} {rate:8.2f} iterations/s ({1000 / rate:.1f} ms)")
print(f"  ratio      {best['s2m-train'] / best['PyTorch']:8.2f}")
