"""The sparse vector technique: which of many counts are above a threshold, for the price of the few that are.

Lyu, Su and Li (2017, "Understanding the sparse vector technique for differential privacy", figure 1) give six published
variants. 1 and 2 are right, 3 to 6 are not. Here at epsilon 1, sensitivity 1, threshold 0, and with integer noise in
place of continuous Laplace, which changes none of the arguments. An outcome has a number for each count: 1 above,
0 below, -1 not answered.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from expril.audit.attack.controls.laws import integers

NOT_ANSWERED = -1


def variant_1(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Right: threshold noise 2, noise of each count 4 c, stops after c = 1 above."""
    return _answers(data, count, generator, threshold=2, each=4, most=1)


def variant_3(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Roth's lecture notes (2011): threshold noise 2, noise 2 c, c = 1; puts out the noisy count that is above.

    An outcome: the place of the count that is above, and its noisy value; (number of counts, 0) where none is.
    """
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    above = noisy >= integers(2, (count, 1), generator)
    found, place = above.any(1), above.argmax(1)
    value = np.where(found, noisy[np.arange(count), place], 0)
    return np.stack((np.where(found, place, len(data)), value), 1)


def variant_4(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Lee and Clifton (2014): threshold noise 4, noise 4/3 for each count whatever c is; here c = 3."""
    return _answers(data, count, generator, threshold=4, each=Fraction(4, 3), most=3)


def variant_5(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Stoddard, Chen and Machanavajjhala (2014): threshold noise 2, none on the counts, never stops."""
    return _answers(data, count, generator, threshold=2, each=0, most=len(data))


def variant_6(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Chen, Xiao, Zhang and Xu (2015): threshold noise 2, noise 2 on each count, never stops."""
    return _answers(data, count, generator, threshold=2, each=2, most=len(data))


def _answers(
    data: Data, count: int, generator: np.random.Generator, *, threshold: int, each: int | Fraction, most: int
) -> NDArray[np.int64]:
    noisy = np.tile(np.array(data), (count, 1))
    if each:
        noisy = noisy + integers(each, noisy.shape, generator)
    above = noisy >= integers(threshold, (count, 1), generator)
    before: NDArray[np.int64] = np.cumsum(above, 1) - above
    return np.where(before < most, above, NOT_ANSWERED).astype(np.int64)
