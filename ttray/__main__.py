"""`python -m ttray`: the `ttray` command, also where no script is installed."""

import os
import sys


def _look_elsewhere_first() -> None:
    """Takes the current directory, where a stranger's `ray.py` may lie, from the start of the path.

    Python puts it there for `-m`. It stays, last, if ttray itself is there: workers look for it too.
    """
    if sys.flags.safe_path:
        return
    try:
        os.getcwd()
    except FileNotFoundError:  # it is deleted, and Python has not put it there
        return
    here = sys.path.pop(0) or os.getcwd()  # runpy is called after `python -c`, which says ""
    if os.path.samefile(here, os.path.dirname(os.path.dirname(__file__))) and here not in sys.path:
        sys.path.append(here)


if __name__ == "__main__":
    _look_elsewhere_first()
    from ttray.cli.app import main

    main()
