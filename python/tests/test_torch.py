"""To and from PyTorch; skipped without it."""

import numpy as np
import pytest
import s2m

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `pip install torch==2.11.0 onnx` runs these tests")


class Generator(torch.nn.Module):
    def __init__(self, forward=None):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self._forward = forward or (lambda self, z: torch.tanh(self.layer(z)))

    def forward(self, *inputs):
        return self._forward(self, *inputs)


def test_a_generator_is_exported_and_checked(tmp_path):
    torch.manual_seed(0)
    generator = Generator().train()
    path = s2m.export(generator, torch.randn(3, 4), out=tmp_path / "g.onnx")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    z = torch.randn(7, 4)
    (found,) = session.run(["x"], {"z": z.numpy()})
    assert np.allclose(found, generator(z).detach().numpy(), atol=1e-6)
    assert generator.training, "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["g.onnx"]


def test_every_module_keeps_its_mode(tmp_path):
    """A part that is frozen while the rest trains stays so."""
    generator = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).train()
    generator[1].eval()
    before = [module.training for module in generator.modules()]
    s2m.export(generator, torch.randn(3, 4), out=tmp_path / "g.onnx")
    assert [module.training for module in generator.modules()] == before == [True, True, False, True]


def test_a_file_that_was_right_stays_where_another_is_wrong(tmp_path):
    out = tmp_path / "g.onnx"
    s2m.export(Generator(), torch.randn(3, 4), out=out)
    before = out.read_bytes()
    # Another network while it is exported: only the check of the file can find that.
    other = Generator(lambda self, z: torch.tanh(self.layer(z)) * (2 if torch.onnx.is_in_onnx_export() else 1))
    with pytest.raises(s2m.Error, match="the file gives numbers up to"):
        s2m.export(other, torch.randn(3, 4), out=out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.onnx"]


def test_a_conditional_generator_has_a_class(tmp_path):
    embedding = torch.nn.Embedding(3, 2)
    generator = Generator(lambda self, z, c: torch.tanh(self.layer(z)) + embedding(c))
    generator.embedding = embedding
    path = s2m.export(generator, torch.randn(3, 4), torch.tensor([0, 1, 2]), out=tmp_path / "g.onnx")
    import onnxruntime

    assert [i.name for i in onnxruntime.InferenceSession(str(path)).get_inputs()] == ["z", "c"]


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda self, z: torch.tanh(self.layer(z)) + torch.randn(len(z), 2), "noise of its own"),
        (lambda self, z: self.layer(z) - self.layer(z).mean(0), "depends on the others of its batch"),
        (lambda self, z: (self.layer(z), z), "not one tensor"),
        (lambda self, z: self.layer(z)[:1], "an item per latent is expected"),
        (lambda self, z: self.layer(z) / 0, "not finite"),
    ],
)
def test_what_cannot_be_exported_is_said(tmp_path, forward, words):
    torch.manual_seed(0)
    with pytest.raises(s2m.Error, match=words):
        s2m.export(Generator(forward), torch.randn(4, 4), out=tmp_path / "g.onnx")
    assert not list(tmp_path.iterdir())


def test_arguments_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(s2m.Error, match=r"not a `torch.nn.Module`"):
        s2m.export(print, torch.randn(2, 4))
    with pytest.raises(s2m.Error, match="a batch of at least 2"):
        s2m.export(Generator(), torch.randn(1, 4))


def test_samples_are_a_data_set():
    draw = s2m.Model("mnist-even").sample("A - B", n=10, seed=1)
    loader = torch.utils.data.DataLoader(draw.dataset(), batch_size=5)
    items, posteriors = next(iter(loader))
    assert items.shape == (5, 1, 28, 28) and posteriors.shape == (5, 2)
    assert torch.equal((items[0, 0] * 255).round().byte(), torch.from_numpy(draw.items[0, ..., 0].copy()))
    points = s2m.Model("gaussians-exact").sample("A", n=4).dataset()
    assert points[3][0].shape == (2,)
