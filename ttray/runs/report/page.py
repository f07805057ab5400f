"""`ttray.report`: one HTML file that shows runs side by side and lets a reader plan; it loads nothing.

What is shown of a run comes from its directory: `run.json`, `metrics.csv`, `steps.csv`. The numbers are put
together here; `page.js` and `explorer.js` only draw them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.core import dcs, planning
from ttray.core.intervals import mean_interval
from ttray.runs.curves import RETURNS, read_csv
from ttray.runs.directories import CONFIG, DESCRIPTION, METRICS, STEPS, check_file
from ttray.runs.versions import versions

_SCRIPTS = ("plans.js", "charts.js", "page.js", "explorer.js")
_PHASES = {"collecting": "sample_time_s", "optimising": "optimise_time_s"}


def report(*directories: str | Path, path: str | Path = "report.html") -> Path:
    """Writes one self-contained page about runs, with a plan explorer.

    Args:
        *directories: Of runs, finished or under way; runs that differ in their seed only are one line with
            its interval. Without any, the page is the plan explorer alone.
        path: The file to write.

    Returns:
        The file.
    """
    path = Path(path).expanduser()
    check_file(path)
    runs = [_read(Path(directory).expanduser()) for directory in directories]
    _label(runs)
    data = {"runs": runs, "groups": _groups(runs), "plans": _plans(runs), "explorer": _explorer(runs)}
    for run in runs:
        del run["rows"], run["steps"]
    subjects = dict.fromkeys(run["settings"]["environment"] for run in runs)
    page = Template(_part("page.html")).substitute(
        title=html.escape(", ".join(subjects) or "Plans"),
        subtitle=html.escape(_subtitle(runs)),
        style=_part("page.css"),
        script="\n".join(_part(name) for name in _SCRIPTS),
        # A script ends at its closing tag even inside a string.
        data=json.dumps(data, allow_nan=False).replace("</", "<\\/"),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _subtitle(runs: Sequence[Mapping[str, Any]]) -> str:
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    return (f"{len(runs)} run{'s' * (len(runs) != 1)}; " if runs else "") + made_with


def _read(directory: Path) -> dict[str, Any]:
    for name in (DESCRIPTION, METRICS):
        if not (directory / name).is_file():
            raise ValueError(
                f"{directory} has no {name}; pass directories of runs that have finished an iteration"
            )
    settings = json.loads((directory / DESCRIPTION).read_text())
    rows = read_csv(directory / METRICS)
    steps = read_csv(directory / STEPS) if (directory / STEPS).exists() else []
    returns = _column(rows, "discounted_return")
    return {
        "name": directory.name,
        "settings": settings,
        "rows": rows,
        "steps": steps,
        # The last iteration's gain shows in a batch that was never collected.
        "predicted": (_column(rows, "bound_after") - _column(rows, "bound_before"))[:-1].tolist(),
        "measured": np.diff(returns).tolist(),
        "phases": _phases(rows),
        "repeat": f"ttray train --config {directory / CONFIG} --directory again",
    }


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _phases(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of what an iteration is made of, over all iterations."""
    seconds = {name: float(_column(rows, key).sum()) for name, key in _PHASES.items()}
    rest = float(_column(rows, "iteration_time_s").sum()) - sum(seconds.values())
    return seconds | {"the rest": max(rest, 0.0)}


def _label(runs: Sequence[dict[str, Any]]) -> None:
    """Names runs by what tells them apart."""
    names = [run["name"] for run in runs]
    for number, run in enumerate(runs):
        run["label"] = run["name"] if names.count(run["name"]) == 1 else f"{run['name']} ({number + 1})"


_OF_A_SEED = (
    "seed",
    "num_iterations",
    "num_env_runners",
    "label_selector",
    "checkpoint_every",
    "optimise_on",
)


def _groups(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in nothing but their seed, as one curve with its interval."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        same = {key: value for key, value in run["settings"].items() if key not in _OF_A_SEED}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(run)
    return [_group(members) for members in groups.values()]


def _group(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    shortest = min(len(run["rows"]) for run in members)
    alone = len(members) == 1
    label = members[0]["label"] if alone else f"{members[0]['label']} and others, {len(members)} seeds"
    group: dict[str, Any] = {
        "label": label,
        "num_env_steps": _column(members[0]["rows"], "num_env_steps")[:shortest].tolist(),
    }
    for name in RETURNS:
        seeds = [_column(run["rows"], name)[:shortest] for run in members]
        mean, half = mean_interval(seeds)
        group[name] = {
            "seeds": [seed.tolist() for seed in seeds],
            "mean": mean.tolist(),
            "low": None if alone else (mean - half).tolist(),
            "high": None if alone else (mean + half).tolist(),
        }
    return group


def _plans(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last plan of each run, those that are the same once; where its variance is, as far as is known."""
    plans: dict[str, dict[str, Any]] = {}
    for run in runs:
        settings = run["settings"]
        if run["steps"]:
            samples = _column(run["steps"], "num_samples")
            variance = _column(run["steps"], "variance") / samples
        else:
            samples, variance = _first_plan(settings).samples_per_step.astype(np.float64), None
        worst = dcs.step_costs(settings["horizon"], settings["gamma"]) / samples
        key = json.dumps([samples.tolist(), settings["gamma"]])
        plans.setdefault(
            key,
            {
                "label": run["label"],
                "samples": samples.tolist(),
                "worst_case_share": _share_up_to(worst),
                "measured_share": None if variance is None else _share_up_to(np.nan_to_num(variance)),
            },
        )
    return list(plans.values())


def _first_plan(settings: Mapping[str, Any]) -> dcs.DataCollectionStrategy:
    return planning.plan(
        settings["strategy"], horizon=settings["horizon"], budget=settings["budget"], gamma=settings["gamma"]
    )


def _share_up_to(variance: NDArray[np.float64]) -> list[float] | None:
    """Of the total, up to each step; None where nothing is known. Steps never seen twice count as 0."""
    total = variance.sum()
    return (np.cumsum(variance) / total).tolist() if total > 0.0 else None


def _explorer(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The explorer starts at the plan of the first run."""
    return {key: runs[0]["settings"][key] for key in ("horizon", "budget", "gamma")} if runs else {}
