"""What torch computes, as another processor might round it, in every process that finds this folder on PYTHONPATH.

Python imports a module of this name as it starts. Once torch is imported, each thread runs under a mode that hands the
results of rounded operations, those of the backward pass too, to the shim that moves numpy's (jitter.c).
"""

import ctypes
import importlib.abc
import importlib.machinery
import os
import sys
import threading

ROUNDED = frozenset(
    """
    mm addmm _addmm_activation bmm baddbmm mv addmv dot vdot linear sum mean var std norm linalg_vector_norm prod cumsum
    exp exp2 expm1 log log1p log2 log10 pow rsqrt sin cos erf erfc erfinv lgamma digamma special_log_ndtr special_ndtri
    sigmoid log_sigmoid_forward tanh softplus gelu silu elu _softmax _log_softmax logsumexp logcumsumexp logaddexp
    sigmoid_backward tanh_backward softplus_backward _softmax_backward_data _log_softmax_backward_data
    binary_cross_entropy binary_cross_entropy_with_logits addcmul addcdiv
    linalg_cholesky_ex linalg_solve_triangular cholesky_solve _linalg_eigh _linalg_svd _linalg_solve_ex
    """.split()  # noqa: SIM905 - a list would take fifty lines
)
"""Operations whose last digits differ among processors: sums in some order, and elementary functions."""


def begin(torch, shim):
    """Run this thread, and each that starts from now on, with results moved."""
    from torch.utils._python_dispatch import TorchDispatchMode

    movers = {}
    for kind in (torch.float64, torch.float32):
        movers[kind] = getattr(shim, f"jitter_{kind}".replace("torch.", ""))
        movers[kind].argtypes, movers[kind].restype = [ctypes.c_void_p, ctypes.c_int64], None

    def move(value):
        if not isinstance(value, torch.Tensor) or value.dtype not in movers:
            return
        if value.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(value):
            movers[value.dtype](value.data_ptr(), value.numel())

    class Jitter(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name in ROUNDED or name.removesuffix("_") in ROUNDED:
                for value in out if isinstance(out, tuple) else (out,):
                    move(value)
            return out

    run = threading.Thread.run

    def jittered(thread):
        with Jitter():
            run(thread)

    threading.Thread.run = jittered
    Jitter().__enter__()


class AfterTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports torch as ever, then begins."""

    def __init__(self, shim):
        self.shim = shim

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        begin(module, self.shim)


if os.environ.get("EXPRIL_JITTER"):
    sys.meta_path.insert(0, AfterTorch(ctypes.CDLL(os.environ["LD_PRELOAD"])))
