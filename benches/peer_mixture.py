# Expectation-maximisation on 10,000 x 128 points, 8 components, 10 steps: s2m-core against
# scikit-learn's GaussianMixture, from the same start, turn by turn in one run.
# Usage: peer_mixture.py S2M-BENCH [POINTS SIZE COMPONENTS STEPS ROUNDS]
# s2m computes in double precision, on every core. scikit-learn computes in the precision of its points:
# both are timed, each with one thread and with every core, and the faster one counts.
import json, subprocess, sys, tempfile, time, warnings

import numpy as np
import sklearn
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

program = sys.argv[1]
asked = (int(n) for n in sys.argv[2:7]) if len(sys.argv) > 2 else (10_000, 128, 8, 10, 3)
items, size, components, steps, rounds = asked
KINDS = {"full": "full", "tied": "shared", "diag": "diagonal"}
REGULARISATION = 1e-6  # of the mean variance, as in em::Settings::default
warnings.filterwarnings("ignore")  # fits end at the stated number of steps


def data():
    random = np.random.default_rng(0)
    means = random.standard_normal((components, size)) * 0.5
    mixing = random.standard_normal((components, size, size)) / size**0.5 + np.eye(size)
    which = random.integers(0, components, items)
    normal = random.standard_normal((items, size))
    points = np.stack([means[k] + mixing[k] @ n for k, n in zip(which, normal)]).astype(np.float32)
    return points, (means + 0.1 * random.standard_normal(means.shape)).astype(np.float32)


def ours(folder):
    asked = [program, "mixture", folder, str(size), str(steps)]
    return json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)


def peer(points, means, kind):
    unit = {"full": np.stack([np.eye(size)] * components), "tied": np.eye(size), "diag": np.ones((components, size))}
    fit = GaussianMixture(
        components, covariance_type=kind, tol=0, max_iter=steps, init_params="random_from_data",
        reg_covar=REGULARISATION * points.var(0, dtype=np.float64).mean(),
        weights_init=np.full(components, 1 / components, points.dtype), means_init=means.astype(points.dtype),
        precisions_init=unit[kind].astype(points.dtype),
    )
    seconds = []
    for threads in (1, None):
        with threadpool_limits(limits=threads):
            start = time.perf_counter()
            fit.fit(points)
            seconds.append(time.perf_counter() - start)
    assert fit.n_iter_ == steps
    return {"seconds": min(seconds), "log_likelihood": fit.score(points)}


def middle(values):
    return sorted(values)[len(values) // 2]


points, means = data()
turns = []
with tempfile.TemporaryDirectory() as folder:
    points.tofile(f"{folder}/points.f32")
    means.tofile(f"{folder}/means.f32")
    for _ in range(rounds):
        we = ours(folder)
        they = {(kind, of): peer(points.astype(of), means, kind) for kind in KINDS for of in ("float64", "float32")}
        turns.append((we, they))

print(f"mixture: {items} x {size} points, {components} components, {steps} steps, median of {rounds}")
print(f"  scikit-learn {sklearn.__version__}, numpy {np.__version__}")
for kind, name in KINDS.items():
    we = turns[0][0][kind]["log_likelihood"]
    seconds = middle([t[0][kind]["seconds"] for t in turns])
    print(f"  {name:9} s2m-core             {seconds:7.3f} s   log likelihood {we:.9f}")
    for of in ("float64", "float32"):
        they = middle([t[1][kind, of]["seconds"] for t in turns])
        found = turns[0][1][kind, of]["log_likelihood"]
        ratios = sorted(t[1][kind, of]["seconds"] / t[0][kind]["seconds"] for t in turns)
        wanted = ", wanted 2" if of == "float64" else ""
        print(f"  {'':9} scikit-learn {of} {they:7.3f} s   log likelihood {found:.9f}   {middle(ratios):.1f} times faster "
              f"({ratios[0]:.1f} to {ratios[-1]:.1f}){wanted}")
print(f"  peak memory {max(t[0]['peak_megabytes'] for t in turns):.0f} MB")
