"""Names of 0.1.0 that have moved work for one version more, and say where they are now."""

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import ttray
from ttray import core
from ttray.cli.app import app
from ttray.cli.terminal import run


def test_an_old_import_gives_the_same_object_and_says_where_it_is():
    with pytest.warns(
        DeprecationWarning, match=r"ttray\.core\.dcs\.truncated is ttray\.plans\.dcs\.truncated now"
    ):
        from ttray.core.dcs import truncated
    assert truncated is ttray.dcs.truncated


def test_a_class_that_was_renamed_is_found_by_its_old_name():
    from ttray.optim.run_statistics import RunStatistics

    with pytest.warns(DeprecationWarning, match="RunStatistics now"):
        from ttray.core.experience import Experience
    assert Experience is RunStatistics


@pytest.mark.parametrize("old", core.PLACES)
def test_every_old_module_can_be_imported_and_its_new_places_are_there(old):
    assert import_module(f"ttray.core.{old}").__name__ == f"ttray.core.{old}"
    for place in core.PLACES[old]:
        import_module(place)


def test_what_is_gone_is_an_error_that_says_so():
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from ttray.core.batch import nothing  # noqa: F401
    with pytest.raises(AttributeError, match=r"ttray\.core\.batch\.nothing is gone"):
        import_module("ttray.core.batch").nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"ttray\.core\.nowhere"):
        import_module("ttray.core.nowhere")


def test_an_old_pickle_finds_its_class():
    from ttray.plans.strategy import DataCollectionStrategy

    old = b"cttray.core.dcs\nDataCollectionStrategy\n."
    with pytest.warns(DeprecationWarning, match="ttray.plans"):
        assert pickle.loads(old) is DataCollectionStrategy


def test_nothing_of_it_is_loaded_by_importing_ttray():
    code = "import sys, ttray; print([name for name in sys.modules if name.startswith('ttray.core')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("old", "new"), [("bench", "python -m benchmarks"), ("reproduce", "python -m paper")]
)
def test_a_command_that_left_says_where_it_went(old, new, capsys):
    with pytest.raises(SystemExit) as left:
        run(app, [old, "sampling", "--json"])
    assert left.value.code == 2
    assert new in capsys.readouterr().err
