"""Every figure of the paper by name: its trials, its data, its picture, and what made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paper import markdown
from paper.claims import tables
from paper.figures import dcs, evaluation, learning
from paper.trials import OnFinished, Trial, is_finished, rows_of, run_trials
from ttray.boundary.fields import check_count
from ttray.boundary.files import read_object
from ttray.runs.presets import PAPER_PRESETS
from ttray.runs.versions import versions
from ttray.service.cpu_types import cpu_type


@dataclass(frozen=True)
class Figure:
    """One figure of the paper.

    Attributes:
        name: Of the command line, and of its files.
        caption: What it shows, in one line.
        trials: What has to run; figures may share trials.
        draw: Makes the picture from the rows of all trials.
        summarise: Makes a Markdown table from them, for those who would rather read.
    """

    name: str
    caption: str
    trials: tuple[Trial, ...]
    draw: Callable[[Sequence[dict[str, Any]], Path], None]
    summarise: Callable[[Sequence[dict[str, Any]]], list[str]]


def figures(
    *,
    num_runs: int | None = None,
    num_iterations: int | None = None,
    horizons: Sequence[int] = evaluation.HORIZONS,
) -> dict[str, Figure]:
    """All figures by name.

    Args:
        num_runs: Runs per curve or point; the paper's numbers unless given.
        num_iterations: Of each learning run; `learning.ITERATIONS` unless given.
        horizons: Of the evaluation figures.
    """
    for name, number in (("num_runs", num_runs), ("num_iterations", num_iterations)):
        if number is not None:
            check_count(name, number)
    evaluated = evaluation.evaluation_trials(
        horizons=horizons, num_runs=evaluation.NUM_RUNS if num_runs is None else num_runs
    )
    trials = partial(learning.learning_trials, num_runs=num_runs, num_iterations=num_iterations)
    found = [
        Figure(
            "dcs-shapes",
            "Samples per step of the strategies",
            dcs.shape_trials(),
            dcs.draw_shapes,
            _no_summary,
        ),
        Figure(
            "dcs-widths",
            "Widths of the interval against γ",
            dcs.width_trials(),
            dcs.draw_widths,
            dcs.summarise_widths,
        ),
        *(
            Figure(
                f"evaluation-{kind}",
                f"Squared error of {kind} evaluation against the budget",
                evaluated,
                partial(evaluation.draw_evaluation, kind),
                partial(evaluation.summarise_evaluation, kind),
            )
            for kind in ("on-policy", "off-policy")
        ),
        Figure(
            "main",
            "TT-POIS and POIS on Dam, Reacher and Supply Chain, γ = 0.999 and 0.95",
            trials(learning.MAIN_PRESETS, learning.MAIN_GAMMAS),
            learning.draw_main,
            learning.summarise_learning,
        ),
        *(
            Figure(
                name,
                f"TT-POIS and POIS on {preset.environment}, Λ = {preset.budget:,}, all γ",
                trials([name]),
                learning.draw_preset,
                learning.summarise_learning,
            )
            for name, preset in PAPER_PRESETS.items()
        ),
    ]
    return {figure.name: figure for figure in found}


GROUPS = {
    "dcs": ("dcs-shapes", "dcs-widths"),
    "evaluation": ("evaluation-on-policy", "evaluation-off-policy"),
}
"""Names that stand for several figures; "all" stands for every one."""


def choose(names: Sequence[str], known: dict[str, Figure]) -> list[Figure]:
    """The figures of these names, groups spelt out, each once."""
    groups = GROUPS | {"all": tuple(known)}
    chosen: dict[str, Figure] = {}
    for name in names:
        for member in groups.get(name, (name,)):
            if member not in known:
                raise ValueError(f"no figure {name!r}; choose from {', '.join([*groups, *known])}")
            chosen[member] = known[member]
    return list(chosen.values())


def finished(chosen: Sequence[Figure], directory: Path) -> list[Figure]:
    """Those of the figures whose trials are all there.

    Raises:
        ValueError: There are none.
    """
    found = [figure for figure in chosen if all(is_finished(trial, directory) for trial in figure.trials)]
    if not found:
        trial = next(
            trial for figure in chosen for trial in figure.trials if not is_finished(trial, directory)
        )
        raise ValueError(
            f"{directory} has all trials of none of these figures, {trial.name} is missing; run them first, "
            "or choose the directory of finished ones"
        )
    return found


def reproduce(
    chosen: Sequence[Figure],
    directory: Path,
    results: Path,
    command: str,
    on_finished: OnFinished | None = None,
    page: Path | None = None,
) -> None:
    """Runs what is missing and writes the figures.

    Args:
        chosen: Which figures.
        directory: Of the trials; finished ones are not run again.
        results: Gets `NAME.parquet`, `NAME.png` and `NAME.json` (command, versions, CPU, runs) per figure,
            and `README.md` with all of the figures that are there.
        command: What the user typed, to be written down.
        on_finished: Told of every trial.
        page: Markdown whose tables `<!-- claims -->` and `<!-- cases -->` are brought up to date with all of
            the results.
    """
    trials = {trial.name: trial for figure in chosen for trial in figure.trials}
    run_trials(list(trials.values()), directory, on_finished)
    results.mkdir(parents=True, exist_ok=True)
    for figure in chosen:
        rows = rows_of(figure.trials, directory)
        pq.write_table(pa.Table.from_pylist(rows), results / f"{figure.name}.parquet", compression="zstd")
        figure.draw(rows, results / f"{figure.name}.png")
        origin = {
            "figure": figure.name,
            "caption": figure.caption,
            "command": command,
            "versions": versions(),
            "cpu": cpu_type(),
            "trials": len(figure.trials),
            "seeds": sorted({row["seed"] for row in rows if "seed" in row}),
            "summary": figure.summarise(rows),
        }
        (results / f"{figure.name}.json").write_text(json.dumps(origin, indent=1) + "\n")
    _write_page(results)
    if page is not None:
        markdown.fill(page, tables(results))


def _no_summary(_: Sequence[dict[str, Any]]) -> list[str]:
    return []


def _write_page(results: Path) -> None:
    lines = ["# Figures", "", "Written by `python -m paper`; the data of each figure are beside it."]
    for path in sorted(results.glob("*.json")):
        origin = read_object(path)
        if "figure" not in origin:
            continue  # the trials' own file, where they share the directory
        made = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
        seeds = f"; seeds {origin['seeds'][0]} to {origin['seeds'][-1]}" if origin["seeds"] else ""
        lines += [
            "",
            f"## {origin['figure']}",
            "",
            f"{origin['caption']}: `{origin['command']}`{seeds}. Made with {made}.",
            "",
            f"![{origin['caption']}]({origin['figure']}.png)",
            *(["", *origin["summary"]] if origin["summary"] else []),
        ]
    (results / "README.md").write_text("\n".join(lines) + "\n")
