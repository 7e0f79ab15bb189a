"""The catalogue of faults fits the source, and the tool that tries them tells the three endings apart."""

from pathlib import Path

import pytest

from tests.mutants.catalogue import FAMILIES, ROOT, BadCatalogue, Mutant, load
from tests.mutants.trying import Trial, Verdict, try_all

MUTANTS = load()
SOURCE = """
MOST = 3

def usual() -> int:
    return 2

USUAL = usual()

def is_over(spent: int, cap: int = MOST) -> bool:
    return spent >= cap
"""
TESTS = """
from small import MOST, USUAL, is_over

def test_a_cap_is_exact() -> None:
    assert is_over(3, 3) and not is_over(2, 3)

def test_a_cap_is_some_number() -> None:
    assert is_over(9, 3)

def test_what_a_module_says() -> None:
    assert (MOST, USUAL) == (3, 2)

def test_a_default() -> None:
    assert is_over(3) and not is_over(2)

def test_what_waits() -> None:
    while not is_over(3, 3):
        pass

def test_that_is_red() -> None:
    assert is_over(0, 3)
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.family}: {mutant.fault}")
def test_a_fault_has_its_place_in_the_source_and_its_test_exists(mutant: Mutant) -> None:
    changed = mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
    compile(changed, mutant.file, "exec")
    path, name = mutant.test.split("::")
    assert f"def {name.split('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def test_no_fault_is_in_the_catalogue_twice() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)


def test_every_family_has_faults() -> None:
    assert {path.stem for path in FAMILIES.glob("*.toml")} == {mutant.family for mutant in MUTANTS}


def fault(old: str, new: str, test: str) -> Mutant:
    return Mutant(
        family="small",
        fault=f"{old} becomes {new}",
        file="server/small.py",
        old=old,
        new=new,
        test=f"tests/test_small.py::test_{test}",
    )


def small_tree(root: Path) -> Path:
    for name, text in {
        "server/small.py": SOURCE,
        "tests/test_small.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["server"]\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.timeout(300)  # it starts pytest half a dozen times
def test_a_fault_is_noticed_survives_or_proves_nothing(tmp_path: Path) -> None:
    root = small_tree(tmp_path)
    told: list[Trial] = []
    faults = {
        fault(">=", ">", "a_cap_is_exact"): Verdict.NOTICED,
        fault(">=", ">", "a_cap_is_some_number"): Verdict.SURVIVED,
        fault(">=", ">", "that_is_red"): Verdict.BROKEN,
        fault("return spent", "retrun spent", "a_cap_is_exact"): Verdict.BROKEN,
        fault("MOST = 3", "MOST = 4", "what_a_module_says"): Verdict.NOTICED,
        fault("return 2", "return 4", "what_a_module_says"): Verdict.NOTICED,
        fault("= MOST", "= 9", "a_default"): Verdict.NOTICED,
        fault(">=", ">", "what_waits"): Verdict.NOTICED,
    }
    trials = try_all(list(faults), at_once=2, tell=told.append, root=root)
    assert {trial.mutant: trial.verdict for trial in trials} == faults
    assert {trial.mutant for trial in told} == set(faults)
    assert (root / "server/small.py").read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize(
    "text",
    [
        '[[mutant]]\nfault = "f"\nfile = "a"\nold = "1"\nnew = "2"\ntest = "t"\n',
        'title = "t"\n[[mutant]]\nfault = "f"\nfile = "a"\nold = "1"\nnew = "2"\n',
        'title = "t"\n[[mutant]]\nfault = "f"\nfile = "a"\nold = "1"\nnew = "1"\ntest = "t"\n',
    ],
)
def test_a_file_that_can_t_be_tried_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "family.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadCatalogue):
        load(tmp_path)
