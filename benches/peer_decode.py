# Pictures read from a folder of JPEG files, cut and resized to 64 x 64, per second: s2m-data against a DataLoader
# over Pillow with two workers, turn by turn in one run.
# Usage: peer_decode.py S2M-BENCH            makes the pictures, runs both
#        peer_decode.py make FOLDER [ITEMS]  writes the pictures, a folder per label
#        peer_decode.py peer FOLDER          runs the DataLoader alone, one line of JSON
# The pictures have CelebA's size. They are smooth fields of colour with finer ones on top, and noise, so that a file
# is about as large as a photograph's. Both sides use the cubic filter, as s2m-data does. The clock runs over one pass,
# the start of the workers included; all files lie in the page cache.
import json, pathlib, subprocess, sys, tempfile, time

import numpy as np
import PIL
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

ITEMS, WIDTH, HEIGHT, SIDE, LABELS = 4000, 178, 218, 64, ("first", "second", "third", "fourth")
WORKERS, BATCH, ROUNDS = 2, 128, 3


def picture(random):
    total = np.full((HEIGHT, WIDTH, 3), 128.0, dtype=np.float32)
    for cells, strength in ((3, 40), (8, 18), (24, 8), (64, 4)):
        for channel in range(3):
            coarse = random.normal(0, strength, (cells * HEIGHT // WIDTH, cells)).astype(np.float32)
            total[..., channel] += np.asarray(Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    total += random.normal(0, 3, (HEIGHT, WIDTH, 1))
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def make(folder, items):
    random = np.random.default_rng(0)
    for label in LABELS:
        pathlib.Path(folder, label).mkdir(parents=True)
    for n in range(items):
        picture(random).save(pathlib.Path(folder, LABELS[n % len(LABELS)], f"{n:05}.jpg"), quality=90)


class Pictures(Dataset):
    def __init__(self, folder):
        self.paths = sorted(pathlib.Path(folder).glob("*/*.jpg"))
        self.labels = sorted({path.parent.name for path in self.paths})

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, n):
        path = self.paths[n]
        with Image.open(path) as file:
            image = file.convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels.float() / 255, self.labels.index(path.parent.name)


def peer(folder):
    start = time.perf_counter()
    count, total = 0, 0.0
    for pixels, _ in DataLoader(Pictures(folder), BATCH, num_workers=WORKERS):
        count, total = count + len(pixels), total + pixels[:, :, ::16, ::16].mean().item()
    assert count and 0 < total < count
    return {"images_per_second": count / (time.perf_counter() - start)}


def ours(program, folder):
    done = subprocess.run([program, "decode", folder], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def middle(values):
    return sorted(values)[len(values) // 2]


def both(program):
    with tempfile.TemporaryDirectory() as folder:
        make(folder, ITEMS)
        size = sum(path.stat().st_size for path in pathlib.Path(folder).glob("*/*.jpg")) / ITEMS
        turns = [(ours(program, folder), peer(folder)) for _ in range(ROUNDS)]
    rates = [tuple(side["images_per_second"] for side in turn) for turn in turns]
    we, they = (middle(column) for column in zip(*rates))
    ratio = middle([one / other for one, other in rates])
    print(f"decode: {ITEMS} JPEG files of {WIDTH}x{HEIGHT}, {size / 1000:.1f} kB each, to {SIDE}x{SIDE}, median of {ROUNDS}")
    print(f"  s2m-data                 {we:9.1f} images/s")
    print(f"  DataLoader, {WORKERS} workers    {they:9.1f} images/s")
    print(f"  {ratio:.2f} times PyTorch {torch.__version__} and Pillow {PIL.__version__}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder, *items]:
            make(folder, int(items[0]) if items else ITEMS)
        case ["peer", folder]:
            print(json.dumps(peer(folder)))
        case [program]:
            both(program)
        case _:
            sys.exit("usage: peer_decode.py S2M-BENCH | make FOLDER [ITEMS] | peer FOLDER")
