"""Proposals per second on a GPU, BigGAN-32 and MobileNetV2: `s2m mine --fast` against PyTorch, turn by turn in one run.

    python peer_scoring.py S2M DIR [BATCH]

DIR is what `peer_torch.py export DIR` wrote. PyTorch runs eagerly in bf16 with channels last, and compiled
(`reduce-overhead`: fused kernels in one CUDA graph), on latents that lie on the GPU, with nothing brought home. Ours is
the whole command: latents, both networks, logits checked and written to a bank; starting up is taken off by the
difference between a long and a short run. PyTorch's weights are others of the same networks: the speed does not depend
on them.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from peer_torch import NETS, build

ROUNDS, LONG, SHORT, STEPS = 3, 640, 128, 60


def seconds_of_ours(program: str, bundle: Path, proposals: int, batch: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "mine", str(bundle), "-n", str(proposals), "--out", f"{folder}/bank", "--quiet"]
        command += ["--device", "cuda", "--fast", "--batch", str(batch)]
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - start


def ours(program: str, bundle: Path, batch: int) -> float:
    short, long = (seconds_of_ours(program, bundle, batches * batch, batch) for batches in (SHORT, LONG))
    return (LONG - SHORT) * batch / (long - short)


def peer(scorer: torch.nn.Module, batch: int, latent: int) -> float:
    z = torch.randn(batch, latent, device="cuda")
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        for step in range(STEPS + 10):
            if step == 10:
                torch.cuda.synchronize()
                start = time.monotonic()
            scorer(z)
        torch.cuda.synchronize()
    return STEPS * batch / (time.monotonic() - start)


def main() -> None:
    program, directory = sys.argv[1], Path(sys.argv[2])
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
    net = NETS["biggan-mobilenet"]
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    eager = build(net).cuda().to(memory_format=torch.channels_last)
    sides = {"PyTorch, eager": lambda: peer(eager, batch, net.latent)}
    sides["s2m mine --fast"] = lambda: ours(program, directory / f"{net.name}.s2m", batch)
    compiled = torch.compile(eager, mode="reduce-overhead")
    sides["PyTorch, compiled"] = lambda: peer(compiled, batch, net.latent)
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in list(sides.items()):
            try:
                seen[name].append(side())
            except Exception as error:  # a compiler that is not there must not hide the other two
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                del sides[name]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, batch {batch}, proposals per second")
    base = statistics.median(seen["PyTorch, eager"])
    for name, rates in seen.items():
        if rates:
            rate = statistics.median(rates)
            print(f"{name:18} {rate:9,.0f}  {rate / base:.2f} of eager  ({', '.join(f'{r:,.0f}' for r in rates)})")


if __name__ == "__main__":
    main()
