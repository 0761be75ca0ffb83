"""A curator's side of secure sums, with real curators: what is charged when, what is refused, what is kept."""

import numpy as np
import pytest

from pooled import BODY, Pool


@pytest.mark.parametrize(
    ("n", "colluders", "dropouts"), [(2, 1, 0), (3, 1, 0), (3, 2, 0), (4, 1, 1), (10, 2, 1), (10, 1, 4)]
)
def test_the_sum_is_that_of_all_counts(n, colluders, dropouts):
    pool = Pool(
        n, colluders, dropouts, rows=lambda index: [(f"p{k}", 10.0 * k, 0.0, "f", "no") for k in range(index + 1)]
    )
    opened = pool.run()
    assert opened.survivors == tuple(range(n))
    np.testing.assert_array_equal(opened.values, pool.exact(BODY))
