"""What the paper reports (full paper, Table 2): facts only, in percent.

The paper averages over 100 runs; its `ratio` is (acc(h*) - acc(C-ExPriL)) / acc(h*), without privacy.
"""

from typing import NamedTuple

RUNS = 100


class Published(NamedTuple):
    """Mean and standard deviation over 100 runs; the deviation of a ratio is not published."""

    mean: float
    std: float | None


_COLUMNS = ("h_star", "C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL", "h0_star", "ratio")
_TABLE_2 = {
    "A": ((94.3, 2.3), (76.8, 4.6), (74.9, 5.0), (74.0, 4.8), (71.9, 4.6), (56.2, 5.0), (0.18, None)),
    "B": ((79.9, 2.0), (58.5, 2.5), (57.4, 2.4), (53.8, 2.7), (53.5, 2.7), (52.9, 2.3), (0.27, None)),
    "C": ((96.2, 1.5), (88.8, 3.3), (88.7, 3.8), (85.8, 4.0), (85.6, 4.0), (55.6, 3.9), (0.077, None)),
    "D": ((90.9, 2.1), (82.2, 3.5), (80.7, 3.9), (75.1, 4.4), (74.1, 4.7), (54.6, 2.8), (0.095, None)),
    "E": ((80.3, 2.5), (72.3, 3.4), (70.4, 3.7), (63.0, 4.1), (60.1, 3.9), (54.0, 2.4), (0.10, None)),
    "CTG-A": ((92.0, 1.0), (87.8, 1.5), (86.9, 1.6), (73.0, 3.7), (70.5, 3.2), (77.7, 1.2), (0.045, None)),
    "CTG-B": ((91.2, 1.1), (86.1, 1.4), (84.9, 1.8), (70.1, 3.8), (65.1, 4.0), (75.5, 1.4), (0.055, None)),
}
TABLE_2: dict[tuple[str, str], Published] = {
    (dataset, column): Published(*numbers)
    for dataset, row in _TABLE_2.items()
    for column, numbers in zip(_COLUMNS, row, strict=True)
}
"""(data set, column) -> published number."""
NOT_SIGNIFICANT = frozenset({"B", "C"})
"""Data sets where the paper does not find C-ExPriL better than I-ExPriL at 95 % (section 4.3)."""
