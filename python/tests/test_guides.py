"""What the guides show, typed as it stands there, in a folder that has what they speak of."""

import gzip
import os
import re
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest
import s2m
from s2m._program import environment, program

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

#: What is not run as it stands, and why; a command that no line here begins is run to its end.
NOT_RUN = {
    "make ": "builds and tests the project itself; continuous integration runs these targets",
    "pip install target/wheels": "test_fresh.py installs the wheel into an empty environment",
    "python docs/export/dcgan_cifar.py": "needs CIFAR-10 and a GPU",
    "s2m fit --generator generator.onnx --data cifar-7to3": "needs CIFAR-10 and a GPU",
    "pip download --no-deps random-face": "fetches weights that are for non-commercial use; test_random_face.py has a toy",
    "python docs/export/random_face.py": "needs those weights",
    "s2m fit --generator data/faces": "needs them, CelebA and a GPU",
    "s2m classes people.s2m": "needs what that line makes",
    "s2m sample people.s2m": "needs what that line makes",
    "s2m reproduce": "trains for hours; the experiments crate tests each with toys",
    "s2m train": "needs MNIST, and minutes to hours; s2m-train's own tests train with toys",
    "s2m eval --real photos": "needs Inception, which may not be passed on; the next lines evaluate with a referee",
}
#: Options that make a command shorter without making it another one.
SHORTER = {"s2m fit": "--items 500 --epochs 1 --no-joint --real frozen"}
#: Python on pages that is not run, and why.
PYTHON_NOT_RUN = {
    "torch.onnx.export": "a piece of a script about a generator of one's own; test_torch.py runs s2m.export",
    'ray.init(address="auto")': "needs a cluster; the docstring of s2m.ray runs the same on a local one",
}


def blocks(page):
    """The pieces of Python on a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def commands(page):
    """The commands on a page, as they are typed: lines that go on are one, remarks are left out."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    typed = re.findall(r"^    (?:\$ )?((?:s2m|make|pip|python) [a-z].*)$", text, re.M)
    return [command.split("  #")[0].strip() for command in typed]


def reason(command):
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


PIECES = [(page, piece) for page in PAGES for piece in blocks(page)]


@pytest.mark.parametrize(("page", "piece"), PIECES, ids=[f"{page.stem}-{n}" for n, (page, _) in enumerate(PIECES)])
def test_python_on_the_pages_runs(page, piece, tmp_path, monkeypatch):
    why = next((why for words, why in PYTHON_NOT_RUN.items() if words in piece), None)
    if why is not None:
        pytest.skip(why)
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(compile(piece, str(page), "exec"), found)
    assert len(found["draw"]) == 1000


def renamed(source, folder, labels):
    """The same model whose labels have other names."""
    shutil.copytree(source, folder)
    text = (folder / "model.toml").read_text()
    for old, new in zip(PETS, labels, strict=True):
        text = re.sub(rf"\b{old}\b", new, text)
    (folder / "model.toml").write_text(text)


PETS = ("cat", "indoors", "kitten")


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """What the guides take for granted: pets, faces, digits, a generator."""
    folder = tmp_path_factory.mktemp("guides")
    (folder / "models").symlink_to(ROOT / "models")
    model = s2m.Model("mnist-even")
    shutil.copyfile(ROOT / "crates/s2m/models/mnist-even.s2m/generator.onnx", folder / "g.onnx")
    for name, query in zip(PETS, ("A", "A - B", "A + B"), strict=True):
        images = model.sample(query, n=150, seed=1).save(folder / "drawn" / name)
        (folder / "pets").mkdir(exist_ok=True)
        shutil.move(images / "images", folder / "pets" / name)
    # Some of them with all their labels known.
    (folder / "checked").mkdir()
    rows = ["file_name,cat,indoors,kitten"]
    for number, (query, known) in enumerate([("A - B", "1,1,0"), ("A + B", "1,0,1")]):
        images = model.sample(query, n=30, seed=2).save(folder / "drawn" / f"checked-{number}") / "images"
        for image in sorted(images.iterdir()):
            shutil.copyfile(image, folder / "checked" / f"{number}-{image.name}")
            rows.append(f"{number}-{image.name},{known}")
    (folder / "checked" / "metadata.csv").write_text("\n".join(rows) + "\n")
    (folder / "fitted").mkdir()
    fit = "s2m fit --generator g.onnx --data pets --out fitted/pets.s2m"
    run(f"{fit} {SHORTER['s2m fit']}", folder)
    renamed(folder / "fitted" / "pets.s2m", folder / "faces.s2m", ("Bald", "Smiling", "Male"))
    renamed(folder / "fitted" / "pets.s2m", folder / "cifar.s2m", ("A", "B", "C"))
    shutil.copytree(ROOT / "crates/s2m/models/mnist-even.s2m", folder / "runs/classifier/mnist-even-seed-0.s2m")
    digits = model.sample("A", n=400, seed=3).items
    (folder / "mnist").mkdir()
    with gzip.open(folder / "mnist" / "t10k-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, len(digits), 28, 28) + digits.tobytes())
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_of_the_guides_run(page, things, tmp_path):
    for path in things.iterdir():
        (tmp_path / path.name).symlink_to(path)
    if page.name not in ("fitting.md", "README.md"):
        # Those make it themselves.
        renamed(things / "fitted" / "pets.s2m", tmp_path / "pets.s2m", PETS)
    ran = 0
    for typed in commands(page):
        if reason(typed) is not None:
            continue
        ran += 1
        run(adapted(typed, tmp_path), tmp_path)
    assert ran > 0 or all(reason(typed) for typed in commands(page))


def adapted(typed, folder):
    """A command for this folder: names that stand for something, and a place that nothing was written to before."""
    line = typed.replace("MODEL", "gaussians-exact").replace("QUERY", '"A - B"').replace("/shared/", "shared/")
    for start, more in SHORTER.items():
        if line.startswith(start):
            line += " " + more
    out = re.search(r"--out (\S+)", line)
    if out and line.startswith("s2m sample") and (folder / out[1]).exists():
        line = line.replace(out[0], out[0] + "-again")
    return line


def run(line, folder):
    variables = {**environment(), "SLURM_ARRAY_TASK_ID": "1", "PATH": f"{program().parent}:{os.environ['PATH']}"}
    if line.startswith("s2m serve"):
        return served(line, folder, variables)
    # The arithmetic and the stars are the shell's.
    ran = subprocess.run(["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True)
    # Models that were fitted here for a moment may say that a query has no samples, which is an answer too.
    answers = (0, 1) if re.match("s2m sample (pets|faces|cifar)", line) else (0,)
    assert ran.returncode in answers, f"{line}\n{ran.stderr}"


def served(line, folder, variables):
    """Until it says where it is."""
    process = subprocess.Popen(["bash", "-c", "exec " + line], cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert re.match(r"http://127\.0\.0\.1:\d+/#[0-9a-f]{32}\n", process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_every_reason_is_still_one():
    """A line in the list that nothing begins any longer goes."""
    typed = [command for page in PAGES for command in commands(page)]
    for start in NOT_RUN:
        assert any(command.startswith(start) for command in typed), start
