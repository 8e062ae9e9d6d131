# MobileNetV2 training images per second: s2m-train against the same loop in PyTorch eager, turn by turn in one run.
# Usage: peer_mobilenet.py S2M-TRAIN cpu|cuda EPOCHS
# One class head, SGD, batch 64. The data are random pictures in CIFAR-10's form: the speed does not depend on what they show.
import json, random, subprocess, sys, tempfile, time

import torch
import torch.nn as nn

program, device, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
BATCH, ITEMS, ROUNDS = 64, 1280, 3
STEPS = epochs * ITEMS // BATCH


def write_pictures(folder):
    random.seed(0)
    for name, count in [(f"data_batch_{n}.bin", ITEMS // 4) for n in range(1, 6)] + [("test_batch.bin", 64)]:
        with open(f"{folder}/{name}", "wb") as file:
            for n in range(count):
                file.write(bytes([n % 10]) + random.randbytes(3072))


def ours(folder, turn):
    run = f"{folder}/run.toml"
    with open(run, "w") as file:
        file.write(f"""epochs = {epochs}
batch = {BATCH}
log-every = {STEPS}
network = {{ kind = "mobilenet-v2" }}
optimizer = {{ kind = "sgd", learning-rate = 0.1, momentum = 0.9 }}
[data]
name = "random"
source = {{ format = "cifar10", folder = "{folder}" }}
classes = [{{ name = "A", of = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }}]
labelling = {{ model = "one-of" }}
validation = 0.2
""")
    out = f"{folder}/out-{turn}"
    subprocess.run([program, "referee", run, "--out", out, "--device", device], check=True, stderr=subprocess.DEVNULL)
    with open(f"{out}/done.json") as file:
        done = json.load(file)
    assert done["steps"] == STEPS, done
    return done["steps_per_second"] * BATCH


def layer(a, b, side, stride, groups):
    conv = nn.Conv2d(a, b, side, stride, side // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(b), nn.ReLU6(inplace=True)]


class Block(nn.Module):
    def __init__(self, a, b, t, stride):
        super().__init__()
        wide, self.residual = a * t, stride == 1 and a == b
        expand = layer(a, wide, 1, 1, 1) if t > 1 else []
        self.layers = nn.Sequential(*expand, *layer(wide, wide, 3, stride, wide), *layer(wide, b, 1, 1, 1)[:2])

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def network():
    parts, a = layer(3, 32, 3, 1, 1), 32
    stages = (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    for t, c, n, stride in stages:
        for i in range(n):
            parts, a = parts + [Block(a, c, t, stride if i == 0 else 1)], c
    return nn.Sequential(*parts, *layer(a, 1280, 1, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))


def pytorch():
    torch.manual_seed(0)
    items = torch.rand(ITEMS, 3, 32, 32, device=device) * 2 - 1
    classes = torch.arange(ITEMS, device=device) % 10
    net = network().to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9)

    def step():
        chosen = torch.randint(0, ITEMS, (BATCH,), device=device)
        loss = nn.functional.cross_entropy(net(items[chosen]), classes[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    wait()
    return STEPS * BATCH / (time.perf_counter() - start)


def middle(values):
    return sorted(values)[len(values) // 2]


with tempfile.TemporaryDirectory() as folder:
    write_pictures(folder)
    rates = [(ours(folder, turn), pytorch()) for turn in range(ROUNDS)]
    one, peer = (middle(column) for column in zip(*rates))
    print(f"MobileNetV2 on 3x32x32, batch {BATCH}, {device}, {torch.get_num_threads()} threads, {STEPS} steps, median of {ROUNDS}")
    print(f"  s2m-train       {one:9.1f} images/s   {one / peer:.2f} of PyTorch {torch.__version__} eager")
    print(f"  PyTorch eager   {peer:9.1f} images/s")
