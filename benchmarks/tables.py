"""Findings as tables of a page, as short as they can be: cases that were measured alike share a table.

Such cases are its lines and their quantities its columns, or the other way round if these are more; a target
that holds for all cases stands beside its quantity. What has no company has a line per finding, and a single
finding is one line of text.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import Finding, Result, short
from paper import markdown

_FEWEST_CASES = 3  # two are read as easily one below the other
_FEWEST_QUANTITIES = 2


def table(result: Result) -> list[str]:
    """What a page shows of a benchmark, as lines of Markdown."""
    if len(result.findings) == 1:
        return [_sentence(result.findings[0])]
    by_case: dict[str, dict[str, Finding]] = {}
    for finding in result.findings:
        by_case.setdefault(finding.case, {})[finding.quantity] = finding
    if sum(map(len, by_case.values())) < len(result.findings):  # a quantity twice: a cell holds only one
        return _one_by_one(result.findings)
    tables, alone = [], []
    for cases in _measured_alike(by_case):
        if len(cases) >= _FEWEST_CASES and len(by_case[cases[0]]) >= _FEWEST_QUANTITIES:
            in_order = [case for case in by_case if case in cases]
            tables.append(_side_by_side({case: by_case[case] for case in in_order}))
        else:
            alone += cases
    if alone:
        tables.append(_one_by_one([finding for finding in result.findings if finding.case in alone]))
    return [line for number, lines in enumerate(tables) for line in ([""] * (number > 0) + lines)]


def _measured_alike(by_case: dict[str, dict[str, Finding]]) -> list[list[str]]:
    """Groups of cases, the one with the most quantities first; each has at least half of these."""
    groups: list[list[str]] = []
    for case in sorted(by_case, key=lambda case: -len(by_case[case])):  # stable: else as they were measured
        for group in groups:
            known = by_case[group[0]].keys()
            if by_case[case].keys() <= known and 2 * len(by_case[case]) >= len(known):
                group.append(case)
                break
        else:
            groups.append([case])
    order = list(by_case)
    return sorted(groups, key=lambda group: min(map(order.index, group)))


def _side_by_side(cases: dict[str, dict[str, Finding]]) -> list[str]:
    quantities = max(map(list, cases.values()), key=len)
    targets = {
        quantity: {found[quantity].target for found in cases.values() if quantity in found}
        for quantity in quantities
    }
    shared = {quantity: next(iter(each)) for quantity, each in targets.items() if len(each) == 1}
    head = [
        f"{quantity}, {shared[quantity]}" if shared.get(quantity) else quantity for quantity in quantities
    ]

    def cell(found: dict[str, Finding], quantity: str) -> str:
        if quantity not in found:
            return ""
        finding = found[quantity]
        target = "" if quantity in shared else finding.target
        judged = " ".join(part for part in (target, finding.verdict) if part)
        return ", ".join(part for part in (_number(finding), judged) if part)

    cells = [[cell(found, quantity) for quantity in quantities] for found in cases.values()]
    lines, columns = list(cases), head
    if len(columns) > len(lines):
        lines, columns, cells = columns, lines, [list(line) for line in zip(*cells, strict=True)]
    rows = [[line, *of_line] for line, of_line in zip(lines, cells, strict=True)]
    return markdown.table(["", *columns], rows)


def _one_by_one(findings: Sequence[Finding]) -> list[str]:
    rows = [(f.case, f.quantity, short(f.median), f.spread, f.target, f.verdict) for f in findings]
    return markdown.table(("", "", "median", "rounds", "target", ""), rows)


def _sentence(finding: Finding) -> str:
    judged = f" ({finding.target}: {finding.verdict})" if finding.target else ""
    return f"{finding.case}: {finding.quantity} = {_number(finding)}{judged}."


def _number(finding: Finding) -> str:
    return f"{short(finding.median)} ({finding.spread})" if finding.spread else short(finding.median)
