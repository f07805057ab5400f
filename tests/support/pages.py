"""Report pages without a training, and in a real browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from ttray.runs.curves import COLUMNS, write_csv
from ttray.runs.directories import DESCRIPTION, METRICS, STEPS
from ttray.runs.run import Run

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium (Debian's package chromium)")


def leave_run(directory, returns, **settings):
    """Writes what a run leaves, without training it."""
    run = Run.of(preset="dam-fast", **settings)
    directory.mkdir(parents=True)
    (directory / DESCRIPTION).write_text(json.dumps(run.to_settings()))
    rows = [
        dict.fromkeys(COLUMNS, 1.0)
        | {"iteration": number, "num_env_steps": 1080 * number, "discounted_return": value}
        | {"bound_before": value - 3.0, "bound_after": value - 1.0, "iteration_time_s": 2.5}
        for number, value in enumerate(returns, 1)
    ]
    write_csv(directory / METRICS, rows)
    samples = run.config().data_collection_strategy().samples_per_step
    variances = np.where(samples > 1, 4.0, np.nan)
    write_csv(
        directory / STEPS,
        [
            {"t": t, "num_samples": n, "variance": f}
            for t, (n, f) in enumerate(zip(samples, variances, strict=True))
        ],
    )
    return directory


def data_of(page):
    return json.loads(re.search(r"<script>const DATA = (.*);</script>", page.read_text()).group(1))


def browse(page, address="", script=""):
    """Opens a page, runs a script in it, gives what became of it; errors of its console are errors here."""
    copy = page.with_name("opened.html")
    copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    flags = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--dump-dom",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", f"--user-data-dir={page.parent / 'browser'}",
    )  # fmt: skip
    done = subprocess.run(
        [BROWSER, *flags, f"file://{copy}{address}"], capture_output=True, text=True, timeout=120
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def shown(dom, name):
    return re.search(rf'id="{name}"[^>]*>([^<]*)<', dom).group(1)
