"""`scripts/mutants`: puts each known fault into a copy of the source and sees that its test turns red.

Exit 0: each was noticed · 1: one survived, or could not be tried · 2: the catalogue or a flag is wrong.
"""

import argparse
import os
import sys
import time

from tests.mutants.catalogue import BadCatalogue, load
from tests.mutants.trying import Trial, Verdict, try_all


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="only faults whose family, text, file or test has one of these"
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and try nothing")
    at_once = min(os.cpu_count() or 1, 4) + 1  # some of the tests only wait
    parser.add_argument("--at-once", type=int, default=at_once, metavar="N")
    given = parser.parse_args()
    try:
        mutants = load()
    except BadCatalogue as error:
        sys.stderr.write(f"{error}\n")
        return 2
    chosen = [
        mutant
        for mutant in mutants
        if not given.words
        or any(word in f"{mutant.family} {mutant.fault} {mutant.file} {mutant.test}" for word in given.words)
    ]
    if given.list or not chosen:
        for mutant in chosen:
            sys.stdout.write(f"{mutant.family:12} {mutant.fault}\n{'':12} {mutant.test}\n")
        return 0 if chosen else 2
    began = time.monotonic()
    trials = try_all(chosen, at_once=max(given.at_once, 1), tell=_tell)
    failed = [trial for trial in trials if trial.verdict is not Verdict.NOTICED]
    took_s = time.monotonic() - began
    sys.stdout.write(f"{len(trials) - len(failed)} of {len(trials)} faults noticed in {took_s:.0f} s\n")
    return 1 if failed else 0


def _tell(trial: Trial) -> None:
    mutant = trial.mutant
    lines = [f"{trial.verdict.value:9} {mutant.family:12} {trial.took_s:5.1f} s  {mutant.fault}"]
    if trial.verdict is not Verdict.NOTICED:
        lines += [f"{'':10}{line}" for line in (mutant.file, mutant.test, *trial.words.splitlines())]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
