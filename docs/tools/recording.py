"""Records commands of `ttray` as a moving picture: `python docs/tools/recording.py`.

The commands really run, in a terminal of their own. What they print, and when, becomes
docs/images/terminal.svg. Pauses are shortened, so that it takes some seconds to watch.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "ttray evaluate cartpole:careful --env CartPole-v1 --to 5% --range 0 1",
    "ttray rank cartpole:careful cartpole:hasty --env CartPole-v1 --range 0 1",
)
COLUMNS, LONGEST_PAUSE_S = 88, 0.6
CHARACTER, LINE, MARGIN = 8.45, 19, 18
STYLE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")  # bold, clear the line, hide the cursor


@dataclass(frozen=True)
class Shown:
    """What stood in a row of the terminal, from when on, and until when if it was written over."""

    row: int
    text: str
    start: float
    end: float | None = None
    is_typed: bool = False


def recorded(command: str, directory: Path) -> list[tuple[float, str]]:
    """Runs a command in a terminal: what it wrote, and how many seconds after its start."""
    leader, follower = pty.openpty()
    begin = time.monotonic()
    environment = os.environ | {
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    process = subprocess.Popen(
        shlex.split(command), stdout=follower, stderr=follower, cwd=directory, env=environment
    )
    os.close(follower)
    pieces: list[tuple[float, str]] = []
    while True:
        try:
            pieces.append((time.monotonic() - begin, os.read(leader, 65536).decode()))
        except OSError:  # the last one who could write has ended
            break
    if process.wait():
        raise SystemExit(f"{command}: exit code {process.returncode}\n" + "".join(text for _, text in pieces))
    return pieces


def rows_of(sessions: list[tuple[str, list[tuple[float, str]]]]) -> list[Shown]:
    """Every state of every row."""
    shown: list[Shown] = []
    now, row = 0.5, 0
    for command, pieces in sessions:
        shown.append(Shown(row, f"$ {command}", now, is_typed=True))
        now, before, row = now + 0.8, 0.0, row + 1
        current: Shown | None = None
        for at, piece in pieces:
            now += min(at - before, LONGEST_PAUSE_S)
            before = at
            for written in re.split(r"(\r?\n|\r)", STYLE.sub("", piece)):
                if written.endswith("\n"):
                    if current is not None:
                        shown.append(current)
                    current, row = None, row + 1
                elif written == "\r" or not written:
                    continue
                else:
                    if current is not None:
                        shown.append(replace(current, end=now))
                    current = Shown(row, written.rstrip(), now)
        now, row = now + 1.2, row + 1
    return shown


def drawn(shown: list[Shown]) -> str:
    """The rows as they came and went."""
    width = round(2 * MARGIN + max(len(each.text) for each in shown) * CHARACTER)
    height = 2 * MARGIN + 26 + LINE * (1 + max(each.row for each in shown))
    shapes = []
    for each in shown:
        if not each.text:
            continue
        kind = "typed" if each.is_typed else "kept" if each.end is None else "gone"
        delay = f"{each.start:.2f}s" + ("" if each.end is None else f",{each.end:.2f}s")
        shapes.append(
            f'<text x="{MARGIN}" y="{MARGIN + 34 + LINE * each.row}" class="{kind}" '
            f'style="animation-delay:{delay}">{escape(each.text)}</text>'
        )
    dots = "".join(
        f'<circle cx="{MARGIN + 2 + 18 * number}" cy="{MARGIN}" r="5.5" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">\n<title>Two commands of ttray in a terminal</title>\n<style>'
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "white-space:pre;fill:#d6deeb;animation:come .01s both}.typed{fill:#7fdbca;font-weight:600}"
        ".gone{animation:come .01s backwards,go .01s forwards}"
        "@keyframes come{from{opacity:0}to{opacity:1}}@keyframes go{to{opacity:0}}"
        "@media (prefers-reduced-motion){text{animation:none}.gone{display:none}}"
        f'</style>\n<rect width="{width}" height="{height}" rx="10" fill="#101623"/>{dots}\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def main() -> None:
    """Records the commands and writes the picture."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(ROOT / "examples" / "cartpole.py", name)
        sessions = [(command, recorded(command, Path(name))) for command in COMMANDS]
    (ROOT / "docs" / "images" / "terminal.svg").write_text(drawn(rows_of(sessions)))


if __name__ == "__main__":
    main()
