"""Sampling with mixed TP sizes as a mixed-integer program over every assignment: the oracle of the exact planner."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from steelyard.balance.coldstart.aware import Classes

SOLVED, IMPOSSIBLE = 0, 2


def feasible(
    of: Classes, seconds: float, budget: int, *, whole: bool = False, counts: dict[int, int] | None = None
) -> bool:
    """Whether some assignment of the groups to engines within `budget` GPUs ends within `seconds`.

    Variables: x[c, i] share of group i that class c serves, z[c, i] whether it serves any, n[c] engines. No contiguity
    is assumed. `whole` forbids to split a group, `counts` fixes n.
    """
    kinds, groups = of.time.shape
    shares = kinds * groups
    total = 2 * shares + kinds
    rows: list[np.ndarray] = []
    low: list[float] = []
    high: list[float] = []

    def add(row: np.ndarray, least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for i in range(groups):
        row = np.zeros(total)
        row[i:shares:groups] = 1
        add(row, 1, 1)
    for c in range(kinds):
        mine, engines = slice(c * groups, (c + 1) * groups), 2 * shares + c
        row = np.zeros(total)
        row[mine], row[engines] = of.time[c] / seconds, -1
        add(row, -np.inf, 0)
        all_work = float(of.work[c].sum()) / seconds
        for i in range(groups):
            served = shares + c * groups + i
            row = np.zeros(total)
            row[c * groups + i], row[served] = 1, -1
            add(row, -np.inf, 0)
            slack = 1 - of.step[c] * of.longest[i] / seconds
            row = np.zeros(total)
            if slack <= 0:
                row[served] = 1
                add(row, 0, 0)
            else:
                row[mine], row[engines], row[served] = of.work[c] / seconds, -slack, all_work
                add(row, -np.inf, all_work)
    row = np.zeros(total)
    row[2 * shares :] = of.tp
    add(row, 0, budget)
    integral = np.ones(total)
    integral[:shares] = 1 if whole else 0
    least, most = np.zeros(total), np.ones(total)
    most[2 * shares :] = budget // of.tp
    if counts is not None:
        least[2 * shares :] = most[2 * shares :] = [counts.get(int(tp), 0) for tp in of.tp]
    answer = milp(
        np.concatenate([np.zeros(2 * shares), of.tp]),
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        integrality=integral,
        bounds=Bounds(least, most),
    )
    assert answer.status in (SOLVED, IMPOSSIBLE), answer.message
    return bool(answer.status == SOLVED)
