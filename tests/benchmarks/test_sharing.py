"""The benchmark of sharing, small: its clients, and that it would see other bits."""

from benchmarks import sharing
from benchmarks.report import Result
from benchmarks.sharing import Word


def test_clients_share_with_the_bits_that_they_have_alone_and_one_is_killed(local_ray, capsys):
    result = sharing.run(alone_s=0.1, together_s=2.0, killed_s=0.1)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    found = {(finding.case, finding.quantity): finding for finding in result.findings}
    judged = [finding for finding in result.findings if finding.at_least == 1.0]
    assert len(judged) == 2 * len(sharing.CLIENTS)
    assert {finding.verdict for finding in judged} == {"ok"}
    for share in ("share of quotas", "share of workers"):
        assert sum(found[name, share].median for name in sharing.CLIENTS) == 1.0
    assert found["the evaluation killed", "left behind"].values == (0.0,)
    assert sharing.draw(Result.from_json(result.to_json())).axes


def test_other_bits_are_seen_as_far_as_both_came():
    alone = [Word(0.0, 10, "[1.0]"), Word(1.0, 20, "[2.0]")]
    assert sharing._is_same(alone, [*alone, Word(2.0, 30, "[3.0]")]) == 1.0
    assert sharing._is_same(alone, [alone[0], Word(1.0, 20, "[2.5]")]) == 0.0
