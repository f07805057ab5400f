"""A figure of which one trial is left to run: with as little work as shows that trials travel."""

from dataclasses import replace

from paper.reproduction import figures
from paper.trials import run_trials

FIGURE = ("evaluation-on-policy", "--runs", "1", "--horizon", "11")  # for `python -m paper`


def all_but_one_finished(directory):
    """Runs all trials but one in this process; gives the file that the last one will write."""
    *others, last = figures(num_runs=1, horizons=[11])[FIGURE[0]].trials
    run_trials([replace(each, on_cluster=False) for each in others], directory)
    return directory / f"{last.name}.parquet"
