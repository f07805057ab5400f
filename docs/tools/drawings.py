"""Draws the pictures of the idea, of the parts and of an iteration: `python docs/tools/drawings.py`.

They are SVG, written by hand from the numbers that ttray computes; a test compares the files with what this
writes now.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import ttray

IMAGES = Path(__file__).resolve().parents[1] / "images"
INK, GREY, PALE, LINE = "#1f2430", "#6b7280", "#f3f4f8", "#d5d8e0"
BLUE, ORANGE, GREEN = "#3f51b5", "#e07a2d", "#2e8b57"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


class Drawing:
    """Shapes on a white card."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title = (width, height), title
        self._shapes: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = PALE, stroke: str = LINE
    ) -> None:
        """A box with round corners."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" '
            f'fill="{fill}" stroke="{stroke}"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A bar without a border."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'
        )

    def line(self, *points: tuple[float, float], stroke: str = GREY, width: float = 1.5) -> None:
        """A line through some points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def arrow(self, *points: tuple[float, float], stroke: str = GREY) -> None:
        """The same with a head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="1.8" '
            f'marker-end="url(#head)"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 14,
        fill: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """A line of text."""
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>"
        )

    def part(
        self, x: float, y: float, width: float, height: float, head: str, *lines: str, fill: str = PALE
    ) -> None:
        """A box with a headline and some lines."""
        self.box(x, y, width, height, fill)
        top = y + height / 2 - 9 * len(lines) + 5
        self.text(x + width / 2, top, head, anchor="middle", bold=True)
        for number, line in enumerate(lines, 1):
            self.text(x + width / 2, top + 18 * number, line, size=12, fill=GREY, anchor="middle")

    def __str__(self) -> str:
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="{FONT}" role="img">\n<title>{escape(self._title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{GREY}"/></marker></defs>\n'
        )
        card = f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>\n'
        return head + card + "\n".join(self._shapes) + "\n</svg>\n"


def idea() -> str:
    """One budget spent twice: on full episodes, and by a plan of lengths."""
    horizon, budget, gamma, delta = 200, 4000, 0.95, 0.05
    drawing = Drawing(960, 480, "The same budget of steps as full episodes and as a plan of lengths")
    plans = (
        (40, ORANGE, "As usual: full episodes", ttray.dcs.uniform(horizon, budget)),
        (520, BLUE, "Planned: many short, few long", ttray.dcs.truncated(horizon, budget, gamma)),
    )
    wide, high, top = 400, 250, 100
    scale, step = wide / horizon, high / max(plan.num_trajectories for *_, plan in plans)
    for left, colour, head, plan in plans:
        lengths = [
            length for length, count in enumerate(plan.trajectories_per_length, 1) for _ in range(int(count))
        ]
        width = ttray.dcs.hoeffding_width(plan, gamma=gamma, delta=delta)
        drawing.text(left, 44, head, size=19, bold=True)
        drawing.text(left, 68, f"{len(lengths):,} trajectories, {sum(lengths):,} steps", fill=GREY)
        drawing.bar(left, top, wide, high, PALE)
        for number, length in enumerate(reversed(lengths)):
            drawing.bar(left, round(top + number * step, 2), length * scale, round(step + 0.1, 2), colour)
        drawing.text(left, top + high + 20, "step 1", size=12, fill=GREY)
        drawing.text(left + wide, top + high + 20, f"step {horizon}", size=12, fill=GREY, anchor="end")
        middle, unit, y = left + wide / 2, 30, top + high + 50
        drawing.line((middle - width * unit, y), (middle + width * unit, y), stroke=colour, width=5)
        drawing.line((middle, y - 9), (middle, y + 9), stroke=INK)
        drawing.text(middle, y + 32, f"the return is known to ±{width:.2f}", anchor="middle", bold=True)
    drawing.text(
        480,
        466,
        f"One line is one trajectory. Discount {gamma}, rewards in a range of 1, {1 - delta:.0%} intervals.",
        size=12,
        fill=GREY,
        anchor="middle",
    )
    return str(drawing)


def architecture() -> str:
    """Who talks to whom."""
    drawing = Drawing(960, 400, "The parts of ttray and what travels between them")
    drawing.part(30, 40, 220, 70, "You", "ttray evaluate, rank, train, collect", fill="#ffffff")
    drawing.box(30, 150, 380, 220, "#eef0fb")
    drawing.text(46, 176, "Driver", bold=True, fill=BLUE)
    drawing.part(50, 192, 160, 70, "Plan", "how many trajectories", "of which length")
    drawing.part(230, 192, 160, 70, "Dispatcher", "one quota per worker,", "again if one dies")
    drawing.part(50, 282, 160, 70, "Estimate", "return, interval,", "next round")
    drawing.part(230, 282, 160, 70, "Batch", "proved to be", "exactly the plan")
    drawing.box(550, 40, 380, 330, "#eff7f1")
    drawing.text(566, 66, "Workers: here, or on any node of a cluster", bold=True, fill=GREEN)
    for number in range(3):
        y = 84 + 94 * number
        drawing.part(570, y, 150, 78, f"Worker {number + 1}", "64 environments", "side by side")
        drawing.part(760, y, 150, 78, "Rows", "an Arrow table,", "stays on its node")
        drawing.arrow((720, y + 39), (758, y + 39))
    drawing.arrow((140, 110), (140, 190))
    drawing.arrow((210, 227), (228, 227))
    drawing.arrow((230, 317), (212, 317))
    drawing.arrow((390, 217), (568, 125))
    drawing.arrow((390, 227), (568, 217))
    drawing.arrow((390, 237), (568, 305))
    drawing.text(455, 140, "quotas:", size=12, fill=GREY, anchor="middle")
    drawing.text(455, 155, "ids and weights", size=12, fill=GREY, anchor="middle")
    drawing.arrow((548, 330), (392, 330))
    drawing.text(480, 346, "receipts;", size=12, fill=GREY, anchor="middle")
    drawing.text(480, 361, "rows when asked for", size=12, fill=GREY, anchor="middle")
    return str(drawing)


def iteration() -> str:
    """What a training does over and over."""
    drawing = Drawing(960, 250, "An iteration of training")
    steps = (
        ("1  Plan", "lengths for the budget,", "once per run, or from", "what rewards did so far"),
        ("2  Collect", "every trajectory by its", "seed: the same bits on", "1 worker or on 100"),
        ("3  Check", "the batch is the plan,", "row by row, and made", "by these very weights"),
        ("4  Improve", "climb a lower bound of", "the return, offline, on", "this batch alone"),
    )
    for number, (head, *lines) in enumerate(steps):
        x = 30 + 232 * number
        drawing.part(x, 50, 204, 110, head, *lines, fill="#eef0fb" if number != 1 else "#eff7f1")
        if number:
            drawing.arrow((x - 28, 105), (x - 2, 105))
    drawing.arrow((828, 160), (828, 205), (132, 205), (132, 163))
    drawing.text(
        480, 198, "publish the new weights; save; next iteration", size=13, fill=GREY, anchor="middle"
    )
    return str(drawing)


DRAWINGS = {"idea.svg": idea, "architecture.svg": architecture, "iteration.svg": iteration}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (IMAGES / name).write_text(draw())
