# WGAN-GP steps per second: s2m-train against the same loop in PyTorch eager, turn by turn in one run.
# Usage: peer_train.py S2M-TRAIN cpu|cuda STEPS [REPLICAS]
# The data are random pictures in MNIST's form: the speed does not depend on what they show.
import json, os, random, subprocess, sys, tempfile, time

import torch
import torch.nn as nn

program, device, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
replicas = int(sys.argv[4]) if len(sys.argv) > 4 else 1
BATCH, LATENT, ROUNDS = 64, 100, 3


def write_pictures(folder):
    random.seed(0)
    for part, count in (("train", 6000), ("t10k", 100)):
        size = count.to_bytes(4, "big")
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as file:
            file.write(bytes([0, 0, 8, 3]) + size + bytes([0, 0, 0, 28, 0, 0, 0, 28]) + random.randbytes(count * 784))
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as file:
            file.write(bytes([0, 0, 8, 1]) + size + bytes(n % 10 for n in range(count)))


def ours(folder, replicas, turn):
    run = f"{folder}/run.toml"
    with open(run, "w") as file:
        file.write(f"""seeds = {list(range(replicas))}
steps = {steps}
batch = {BATCH}
ema = 0.0
log-every = {steps}
checkpoint-every = {steps}
grid-every = {steps}
objective = {{ kind = "wgan-gp", critic-steps = 2, penalty = 10.0 }}
optimizer = {{ kind = "adam", learning-rate = 1e-4, beta1 = 0.5, beta2 = 0.999 }}
network = {{ latent = {LATENT}, hidden = [256, 256] }}
[[data]]
name = "random"
source = {{ format = "idx", folder = "{folder}" }}
classes = [{{ name = "A", of = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }}]
labelling = {{ model = "one-of" }}
""")
    out = f"{folder}/out-{replicas}-{turn}"
    subprocess.run([program, "gan", run, "--out", out, "--device", device], check=True, stderr=subprocess.DEVNULL)
    with open(f"{out}/done.json") as file:
        return json.load(file)["steps_per_second"]


def network(*sizes):
    layers = []
    for n, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.Linear(a, b)] + ([nn.ReLU()] if n < len(sizes) - 2 else [])
    return nn.Sequential(*layers)


def pytorch():
    torch.manual_seed(0)
    items = torch.rand(5400, 784, device=device) * 2 - 1
    generator = nn.Sequential(network(LATENT, 256, 256, 784), nn.Tanh()).to(device)
    critic = network(784, 256, 256, 1).to(device)
    optimizers = [torch.optim.Adam(n.parameters(), 1e-4, (0.5, 0.999)) for n in (generator, critic)]

    def step():
        for _ in range(2):
            real = items[torch.randint(0, len(items), (BATCH,), device=device)]
            with torch.no_grad():
                fake = generator(torch.randn(BATCH, LATENT, device=device))
            place = torch.rand(BATCH, 1, device=device)
            between = (fake + (real - fake) * place).requires_grad_()
            slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
            penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            optimizers[1].zero_grad()
            loss.backward()
            optimizers[1].step()
        loss = -critic(generator(torch.randn(BATCH, LATENT, device=device))).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(10):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return steps / (time.perf_counter() - start)


def middle(values):
    return sorted(values)[len(values) // 2]


with tempfile.TemporaryDirectory() as folder:
    write_pictures(folder)
    rates = [(ours(folder, 1, turn), pytorch()) for turn in range(ROUNDS)]
    one, peer = (middle(column) for column in zip(*rates))
    print(f"WGAN-GP on 28x28, batch {BATCH}, {device}, {torch.get_num_threads()} threads, {steps} steps, median of {ROUNDS}")
    print(f"  s2m-train, one replica   {one:9.1f} steps/s   {one / peer:.2f} of PyTorch {torch.__version__} eager")
    print(f"  PyTorch eager            {peer:9.1f} steps/s")
    if replicas > 1:
        many = ours(folder, replicas, 0)
        print(f"  s2m-train, {replicas} replicas    {many:9.1f} steps/s = {many * replicas:.1f} replica steps/s   {many * replicas / one:.2f} of one at a time")
