"""Interrupts a program at a line of its own choosing, as Ctrl-C may."""

import contextlib
import signal
import sys
import threading
from pathlib import Path


@contextlib.contextmanager
def at_every_line(sources, on_line):
    """Calls a function before every line of some files that this thread runs, with "file:line"."""

    def trace(frame, event, _):
        if frame.f_code.co_filename not in sources:
            return None
        if event == "line":
            on_line(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def interrupted_at(sources, place, act, *, visit=1):
    """Whether `act` came to a line so many times; at the last of them it was interrupted."""
    left = visit

    def interrupt(line):
        nonlocal left
        left -= line == place
        if line == place and not left:
            sys.settrace(None)
            raise KeyboardInterrupt(line)

    with at_every_line(sources, interrupt):
        try:
            act()
        except KeyboardInterrupt:
            return True
    return False


def interrupted_after(wait_s, act):
    """Whether a SIGINT to the main thread, so long after the beginning, interrupted something."""
    inside = True

    def interrupt(*_):
        if inside:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    main_thread = threading.main_thread().ident
    timer = threading.Timer(wait_s, signal.pthread_kill, [main_thread, signal.SIGINT])
    try:
        timer.start()
        act()
    except KeyboardInterrupt:
        return True
    finally:
        inside = False
        timer.join()
        signal.signal(signal.SIGINT, before)
    return False
