"""`jackline`, with cProfile watching its main thread between SIGUSR1 and SIGUSR2.

    python -m benchmarks.profiled FILE serve --config …

The event loop is that thread; the store's writer is not seen. Read FILE with `python -m pstats FILE`.
"""

import cProfile
import signal
import sys
from pathlib import Path

from jackline_client.cli.main import main


def run(file: Path, words: list[str]) -> None:
    """Run `jackline` with these words; each SIGUSR2 writes the file anew."""
    profile = cProfile.Profile()
    fresh = file.with_name(f"{file.name}.new")

    def start(*_: object) -> None:
        profile.enable()

    def stop(*_: object) -> None:
        profile.disable()
        profile.dump_stats(str(fresh))
        fresh.rename(file)

    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, stop)
    sys.argv = ["jackline", *words]
    main()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
