import pytest

from benchmarks import envs as benchmark


def test_the_benchmark_prints_a_narrow_table_of_all_environments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Too short to judge speeds: only that everything runs and is reported.
    result = benchmark.run(rounds=1, numpy_steps=5, reacher_steps=2)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert sum(finding.at_least is not None for finding in result.findings) == 7
    assert all(finding.median > 0 for finding in result.findings)
    for name in ("Evaluation", "CorridorSparse", "CorridorDense", "Dam", "SupplyChain", "Reacher"):
        assert sum(line.startswith(name) for line in lines) >= 2
