"""An unconditional GAN on seven classes of CIFAR-10, in plain PyTorch.

    python dcgan_cifar.py train CIFAR gan --seconds 240
    python dcgan_cifar.py export gan/generator.pt generator.onnx
    python dcgan_cifar.py labels CIFAR cifar-7to3

CIFAR is the folder of CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin.
`train` leaves generator.pt and grid.png (64 samples); `export` makes an ONNX file of the generator; `labels` writes
the training pictures with one label each: images/00000.png, ... and metadata.csv. Needs numpy and Pillow too.
"""
import argparse, copy, pathlib, time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm

# airplane 0, automobile 1, bird 2, cat 3, deer 4, dog 5, frog 6; horse, ship and truck are left out.
LABELS = {0: "A", 1: "AB", 2: "B", 3: "BC", 4: "C", 5: "AC", 6: "ABC"}
LATENT, BATCH, CRITIC_STEPS, EMA = 128, 128, 2, 0.999


def load(folder):
    """Pictures of the seven classes as bytes [n, 3, 32, 32], and their classes."""
    files = [pathlib.Path(folder) / f"data_batch_{n}.bin" for n in range(1, 6)]
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    rows = rows[np.isin(rows[:, 0], list(LABELS))]
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def write_png(path, picture):
    from PIL import Image  # here, so that a missing Pillow costs the picture and not the training
    Image.fromarray(picture).save(path)


def started(layer):
    nn.init.xavier_uniform_(layer.weight)
    return layer


class Up(nn.Module):
    """Residual block of the generator, twice the side."""

    def __init__(self, a, b):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(a), started(nn.Conv2d(a, b, 3, padding=1, bias=False))
        self.norm2, self.conv2 = nn.BatchNorm2d(b), started(nn.Conv2d(b, b, 3, padding=1))
        self.skip = started(nn.Conv2d(a, b, 1, bias=False)) if a != b else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.interpolate(F.relu(self.norm1(x)), scale_factor=2.0))
        return self.conv2(F.relu(self.norm2(h))) + F.interpolate(self.skip(x), scale_factor=2.0)


class Generator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.start = started(nn.Linear(LATENT, width * 4 * 4))
        self.blocks = nn.Sequential(Up(width, width), Up(width, width), Up(width, width // 2))
        self.norm, self.colour = nn.BatchNorm2d(width // 2), started(nn.Conv2d(width // 2, 3, 3, padding=1))

    def forward(self, z):
        x = self.blocks(self.start(z).view(-1, self.width, 4, 4))
        return torch.tanh(self.colour(F.relu(self.norm(x))))


class Down(nn.Module):
    """Residual block of the critic."""

    def __init__(self, a, b, pool):
        super().__init__()
        self.conv1 = spectral_norm(started(nn.Conv2d(a, b, 3, padding=1)))
        self.conv2 = spectral_norm(started(nn.Conv2d(b, b, 3, padding=1)))
        self.skip = spectral_norm(started(nn.Conv2d(a, b, 1))) if a != b else nn.Identity()
        self.pool = nn.AvgPool2d(2) if pool else nn.Identity()

    def forward(self, x):
        h = self.conv1(x if x.shape[1] == 3 else F.relu(x))  # pictures go in as they are
        return self.pool(self.conv2(F.relu(h))) + self.skip(self.pool(x))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(*(Down(3 if n == 0 else width, width, pool=n < 2) for n in range(4)))
        self.score = spectral_norm(started(nn.Linear(width, 1)))
        self.normed = [module for module in self.modules() if parametrize.is_parametrized(module)]

    def forward(self, x):
        with parametrize.cached():
            with torch.autocast(x.device.type, enabled=False):
                [layer.weight for layer in self.normed]  # spectral norms in full precision, kept for the next line
            return self.score(F.relu(self.blocks(x)).sum((2, 3))).float()


def augment(x, most=4):
    """Mirrors half of the pictures and moves all by up to four pixels, grey outside; with gradients."""
    n = x.shape[0]
    theta = torch.eye(2, 3, device=x.device).repeat(n, 1, 1)
    theta[:, 0, 0] = torch.randint(0, 2, (n,), device=x.device) * 2.0 - 1.0
    theta[:, :, 2] = torch.randint(-most, most + 1, (n, 2), device=x.device) * (2.0 / x.shape[-1])
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), mode="nearest", align_corners=False)


def train(args):
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    data = torch.from_numpy(load(args.source)[0]).to(device)
    networks = Generator(args.width), Critic(args.width // 2)
    generator, critic = (network.to(device, memory_format=torch.channels_last) for network in networks)
    ema = copy.deepcopy(generator).requires_grad_(False)
    weights, averages = list(generator.parameters()), list(ema.parameters())
    settings = {"lr": 2e-4, "betas": (0.0, 0.9), "fused": device == "cuda"}
    optimizers = [torch.optim.Adam(net.parameters(), **settings) for net in (generator, critic)]
    half = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
    start, step, done = time.time(), 0, 0.0
    while done < 1:
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = settings["lr"] * min(1, 2 * (1 - done))  # falls to zero over the second half
        critic.train().requires_grad_(True)
        with torch.no_grad(), half:
            fakes = generator(torch.randn(CRITIC_STEPS * BATCH, LATENT, device=device)).float().chunk(CRITIC_STEPS)
        for fake in fakes:
            real = data[torch.randint(len(data), (BATCH,), device=device)].float() / 127.5 - 1
            both = augment(torch.cat([real, fake]))
            with half:
                scores_real, scores_fake = critic(both).chunk(2)
            loss_critic = F.relu(1 - scores_real).mean() + F.relu(1 + scores_fake).mean()
            optimizers[1].zero_grad()
            loss_critic.backward()
            optimizers[1].step()
        critic.eval().requires_grad_(False)
        with half:
            fake = generator(torch.randn(BATCH, LATENT, device=device))
        fake = augment(fake.float())
        with half:
            loss = -critic(fake).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
        step += 1
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 1 - min(EMA, step / (step + 10)))
        if step % args.log_every == 0:
            print(f"step {step}, {time.time() - start:.0f} s: critic {loss_critic:.3f}, generator {loss:.3f}", flush=True)
        done = max(step / args.steps, (time.time() - start) / args.seconds)
    print(f"{step} steps in {time.time() - start:.0f} s")
    for norm in (module for module in ema.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.reset_running_stats()  # the averaged weights need statistics of their own: means over fresh batches
        norm.momentum = None
    for _ in range(200 if device == "cuda" else 2):
        ema.train()(torch.randn(BATCH, LATENT, device=device))
    ema.eval()
    args.out.mkdir(parents=True, exist_ok=True)
    saved = {name: value.cpu().contiguous() for name, value in ema.state_dict().items()}
    torch.save({"width": args.width, "weights": saved}, args.out / "generator.pt")
    x = ema(torch.randn(64, LATENT, device=device)).mul(127.5).add(128).clamp(0, 255).byte().cpu()
    write_png(args.out / "grid.png", x.view(8, 8, 3, 32, 32).permute(0, 3, 1, 4, 2).reshape(256, 256, 3).numpy())


def export(args):
    saved = torch.load(args.source)
    generator = Generator(saved["width"])
    generator.load_state_dict(saved["weights"])
    torch.onnx.export(generator.eval(), (torch.randn(2, LATENT),), args.out, input_names=["z"], output_names=["x"],
                      dynamic_axes={"z": {0: "n"}, "x": {0: "n"}}, opset_version=17, dynamo=False)


def labels(args):
    pictures, classes = load(args.source)
    random = np.random.default_rng(args.seed)
    shown = [LABELS[c][int(u * len(LABELS[c]))] for c, u in zip(classes.tolist(), random.random(len(classes)))]
    (args.out / "images").mkdir(parents=True)
    with open(args.out / "metadata.csv", "w") as file:
        file.write("file_name,label\n")
        for n, label in enumerate(shown[:args.limit]):
            file.write(f"images/{n:05}.png,{label}\n")
            write_png(args.out / f"images/{n:05}.png", pictures[n].transpose(1, 2, 0))


if __name__ == "__main__":
    commands = {"train": train, "export": export, "labels": labels}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("source")
    parser.add_argument("out", type=pathlib.Path)
    for name, value, text in [("seed", 0, "of weights and noise, or of the labels shown"),
                              ("seconds", 240.0, "train: stop after so much time"),
                              ("steps", 50000, "train: or after so many steps of the generator"),
                              ("width", 256, "train: channels of the generator"),
                              ("log-every", 500, "train: steps between lines of losses")]:
        parser.add_argument(f"--{name}", type=type(value), default=value, help=text)
    parser.add_argument("--limit", type=int, help="labels: only the first so many pictures")
    args = parser.parse_args()
    commands[args.command](args)
