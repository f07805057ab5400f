"""Pictures are drawn without a word to the Matplotlib of whoever asked for them."""

import subprocess
import sys

from tests.support.programs import ROOT

DRAWING = """
import sys
from pathlib import Path
import matplotlib
matplotlib.use("svg")
from ttray.runs.curve_pictures import draw_curves
rows = [dict(algorithm="TTPOIS", seed=0, num_env_steps=1, discounted_return=1.0, episode_return_mean=1.0)]
draw_curves(Path(sys.argv[1]), "a title", rows)
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot as plt
print(matplotlib.get_backend(), plt.get_fignums())
"""


def test_a_users_backend_is_as_it_was_after_a_picture(tmp_path):
    picture = tmp_path / "curves.png"
    ran = subprocess.run(
        [sys.executable, "-c", DRAWING, str(picture)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "svg []\n", ran.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
