# FID, KID, precision, recall, density and coverage of 10,000 x 2,048 features: s2m-metrics against
# prdc and SciPy's sqrtm (FID; no KID), turn by turn in one run.
# Usage: peer_metrics.py S2M-BENCH [ITEMS WIDTH ROUNDS]
# The features look like a network's last layer: not negative, correlated, many of them often zero.
# prdc rounds distances to single precision when features are, so a count may differ by a tie.
import json, subprocess, sys, tempfile, time
from importlib.metadata import version

import numpy as np
import prdc
import scipy
import scipy.linalg

program = sys.argv[1]
items, width, rounds = (int(n) for n in sys.argv[2:5]) if len(sys.argv) > 2 else (10_000, 2_048, 1)
FACTORS = 128


def features(loadings, bias, spread, shift, random):
    common = random.standard_normal((items, FACTORS), dtype=np.float32) * spread + shift
    own = random.standard_normal((items, width), dtype=np.float32)
    return np.maximum(common @ loadings + 0.3 * own + bias, 0).astype(np.float32)


def sides():
    random = np.random.default_rng(0)
    decay = np.arange(1, FACTORS + 1, dtype=np.float32)[:, None] ** -0.5
    loadings = random.standard_normal((FACTORS, width), dtype=np.float32) * decay * 0.25
    bias = random.standard_normal(width, dtype=np.float32) * 0.3 + 0.1
    return features(loadings, bias, 1.0, 0.0, random), features(loadings, bias, 0.95, 0.05, random)


def ours(folder):
    done = subprocess.run([program, "metrics", folder, str(width)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def peer(real, generated):
    start = time.perf_counter()
    means, covariances = zip(*((x.mean(0, dtype=np.float64), np.cov(x, rowvar=False)) for x in (real, generated)))
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    found = {"fid": ((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)}
    found["fid_seconds"] = time.perf_counter() - start
    found |= prdc.compute_prdc(real_features=real, fake_features=generated, nearest_k=5)
    found["seconds"] = time.perf_counter() - start
    return {name: float(value) for name, value in found.items()}


def middle(values):
    return sorted(values)[len(values) // 2]


real, generated = sides()
with tempfile.TemporaryDirectory() as folder:
    real.tofile(f"{folder}/real.f32")
    generated.tofile(f"{folder}/generated.f32")
    turns = [(ours(folder), peer(real, generated)) for _ in range(rounds)]

we, they = turns[0]
print(f"metrics: {items} x {width} features on each side, median of {rounds}")
print(f"  {'':10} {'s2m-metrics':>14} {'prdc, SciPy':>14}")
for name in ("fid", "precision", "recall", "density", "coverage"):
    print(f"  {name:10} {we[name]:14.8f} {they[name]:14.8f}")
print(f"  {'kid':10} {we['kid']:14.8f}   (standard error {we['kid_standard_error']:.8f})")
for name, of in (("FID", "fid_seconds"), ("all", "seconds")):
    print(f"  {name:10} {middle([t[0][of] for t in turns]):12.2f} s {middle([t[1][of] for t in turns]):12.2f} s")
ratio = middle([theirs["seconds"] / ours["seconds"] for ours, theirs in turns])
memory = max(t[0]["peak_megabytes"] for t in turns)
print(f"  {ratio:.1f} times faster than prdc {version('prdc')} and SciPy {scipy.__version__}, wanted 3")
print(f"  peak memory {memory:.0f} MB, wanted under 4000")
