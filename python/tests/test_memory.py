"""Banks larger than what a query may hold: the program reads them piece by piece."""

import os

import pytest
import s2m
from s2m._program import environment, program

SMALL, LARGE = 1 << 19, 12 << 19
#: What a larger bank may take more: a table of its parts and the like, and nothing in proportion to its proposals.
MORE = 16_000_000


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    model = s2m.Model("gaussians-exact")
    return {size: model.mine(size, out=folder / str(size)).path for size in (SMALL, LARGE)}


def peak(*arguments):
    """Most bytes that a run of the program has held."""
    silent = [(os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_WRONLY, 0) for at in (1, 2)]
    command = [str(program()), *map(str, arguments), "--threads", "1", "--quiet"]
    child = os.posix_spawn(program(), command, environment(), file_actions=silent)
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return used.ru_maxrss * 1024


def test_a_query_over_a_bank_holds_a_piece_of_it(banks, tmp_path):
    on_disk = {size: sum(path.stat().st_size for path in bank.iterdir()) for size, bank in banks.items()}
    assert on_disk[LARGE] - on_disk[SMALL] > 4 * MORE, "all of it would be seen"
    classes = {size: peak("classes", "gaussians-exact", "--bank", bank) for size, bank in banks.items()}
    assert classes[LARGE] - classes[SMALL] < MORE, classes
    draws = {
        size: peak("sample", "gaussians-exact", "A - B", "-n", size // 8, "--bank", bank, "--out", tmp_path / str(size))
        for size, bank in banks.items()
    }
    assert draws[LARGE] - draws[SMALL] < MORE, draws
