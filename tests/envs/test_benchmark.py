import pytest

from ttray.experiments.benchmarks import envs as benchmark


def test_the_benchmark_prints_a_narrow_table_of_all_environments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Too short to judge speeds: only that everything runs and is reported.
    rates = benchmark.run(rounds=1, numpy_steps=5, reacher_steps=2)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert len(rates) == 8
    assert all(rate.batched > 0 and rate.other > 0 and rate.ratio > 0 for rate in rates)
    for name in ("Evaluation", "CorridorSparse", "CorridorDense", "Dam", "SupplyChain", "Reacher"):
        assert sum(line.startswith(name) for line in lines) >= 2


def test_a_ratio_below_its_target_is_called_slow() -> None:
    rate = benchmark.Rate(name="x", batched=10.0, other=1.0, ratio=10.0, target=20.0)
    assert rate.verdict == "SLOW"
