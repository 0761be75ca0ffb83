"""Run the tests as other processors would round: `make test-jitter`, or `python tests/support/jitter [TEST ...]`.

First all fast tests, with every result of BLAS, LAPACK and torch moved by some units in the last place, and with the
plain kernels of numpy's and the C library's elementary functions. Those that reached a moved result, in whatever
process, are numerical: they run again with other seeds, kernels and threads. Arguments that are not this command's are
handed to pytest; then the tests that they name run with each setting.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
COMPILE = ("-O2", "-fPIC", "-shared")
PLAIN_LIBM = "glibc.cpu.hwcaps=-AVX2,-AVX,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def threads(number: int) -> dict[str, str]:
    """So many, for every library that has some."""
    return dict.fromkeys(THREADS, str(number))


KERNELS = {name: {"OPENBLAS_CORETYPE": name} for name in ("Haswell", "SkylakeX", "Nehalem")}
TORCH, MKL = {"ATEN_CPU_CAPABILITY": "default"}, {"MKL_CBWR": "COMPATIBLE"}
APART = {
    "torch's plain kernels": TORCH,
    "MKL's compatible kernels": MKL,
    "one thread": threads(1),
    "three threads": threads(3),
    **{f"OpenBLAS's kernels for {name}": kernel for name, kernel in KERNELS.items()},
}
TOGETHER = {
    "the plainest kernels, one thread": TORCH | MKL | threads(1) | KERNELS["Nehalem"],
    "OpenBLAS's kernels for Haswell, three threads": threads(3) | KERNELS["Haswell"],
    "OpenBLAS's kernels for SkylakeX": KERNELS["SkylakeX"],
}
"""All of them in three runs. A setting is tried apart, with `--apart`, to learn which of a run's made a test fail."""
PROBE = """
import sys, numpy, scipy.linalg, threadpoolctl
for kind in ("f4", "f8"):
    matrix = numpy.eye(256, dtype=kind) + numpy.asarray(0.001, kind)
    scipy.linalg.cholesky(matrix @ matrix.T)
blas = {library["architecture"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}
sys.exit(blas != {sys.argv[1]})
"""
"""A processor without the instructions kills this, and a library without the kernels reports others."""
FEATURES = """
import json
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(json.dumps([name for name in __cpu_dispatch__ if __cpu_features__[name]]))
"""


MOVED = """
import json, numpy as np, scipy.linalg, torch
from sklearn.linear_model import LogisticRegression
rng = np.random.default_rng(0)
a, b = rng.normal(size=(60, 40)), rng.normal(size=(40, 30))
network = torch.nn.Sequential(torch.nn.Linear(5, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1))
with torch.no_grad():
    for number, each in enumerate(network.parameters()):
        each.copy_(torch.from_numpy(np.sin(np.arange(each.numel()) + number)).view(each.shape))
network(torch.from_numpy(a[:, :5]).float()).exp().mean().backward()
torch.optim.SGD(network.parameters(), 0.1).step()
whole = np.rint(1000 * a)
found = {
    "@": a @ b,
    "scipy.linalg.solve": scipy.linalg.solve(a[:40], b),
    "LogisticRegression": LogisticRegression().fit(a, a[:, 0] > a[:, 1] / 3).coef_,
    "a step of torch": network[0].weight.detach().numpy(),
    "exp": np.exp(a),
    "log": np.log(np.abs(a)),
    "exact: whole numbers": whole.T @ whole,
    "exact: the unit matrix": a @ np.eye(40),
}
print(json.dumps({name: np.asarray(value, float).tobytes().hex() for name, value in found.items()}))
"""
"""What must move, and what no processor may: sums without rounding."""


def self_test(shim: Path, seed: int) -> None:
    """Stop where jitter moves too little or too much."""
    found = [
        json.loads(subprocess.check_output([sys.executable, "-c", MOVED], env=os.environ | told, text=True))
        for told in ({}, jittered(shim, seed), jittered(shim, seed))
    ]
    plain, once, again = found
    features = jittered(shim, seed)["NPY_DISABLE_CPU_FEATURES"]
    if "AVX512" not in features and "X86_V4" not in features:
        plain.pop("log")  # numpy has a logarithm of its own for that alone
    wrong = [name for name in plain if (plain[name] == once[name]) != name.startswith("exact")]
    wrong += [f"{name}, not twice alike" for name in plain if once[name] != again[name]]
    if wrong:
        sys.exit(f"jitter is broken: {', '.join(wrong)}")


def compiled(folder: Path) -> Path | None:
    """The shim; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    shim = folder / "jitter.so"
    subprocess.run([compiler, *COMPILE, "-o", shim, HERE / "jitter.c", "-ldl"], check=True)
    return shim


def jittered(shim: Path, seed: int) -> dict[str, str]:
    """The environment of a process whose results are moved."""
    path = os.environ.get("PYTHONPATH")
    known = subprocess.run([sys.executable, "-c", FEATURES], check=True, capture_output=True, text=True)
    return {
        "EXPRIL_JITTER": str(seed),
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": os.pathsep.join([str(HERE), *([path] if path else [])]),
        "NPY_DISABLE_CPU_FEATURES": " ".join(json.loads(known.stdout)),
        "GLIBC_TUNABLES": PLAIN_LIBM,
    }


def runs(kernel: str) -> bool:
    """Whether this processor and its BLAS have the kernels of that name."""
    told = os.environ | {"OPENBLAS_CORETYPE": kernel}
    return (
        subprocess.run([sys.executable, "-c", PROBE, kernel], env=told, capture_output=True, check=False).returncode
        == 0
    )


def pytest(name: str, environment: dict[str, str], arguments: list[str]) -> bool:
    """Run tests with a setting; whether they passed."""
    sys.stdout.write(f"\n--- {name} ---\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *arguments]
    return subprocess.run(command, env=os.environ | environment, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=2, help="how many seeds of jitter; 2 by default")
    parser.add_argument("--first-seed", type=int, default=1, help="1 by default; others look elsewhere")
    parser.add_argument("--only-jitter", action="store_true", help="not the other kernels and threads")
    parser.add_argument(
        "--apart", action="store_true", help="each of the other kernels and threads in a run of its own"
    )
    options, chosen = parser.parse_known_args()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="jitter-") as scratch:
        folder = Path(scratch)
        shim = compiled(folder)
        numerical = chosen
        if shim is None:
            sys.stdout.write("skipped: jitter needs a C compiler, and there is no cc or gcc; install gcc\n")
            settings, numerical = {}, chosen or ["-m", "not slow"]
        else:
            first, *more = range(options.first_seed, options.first_seed + options.seeds)
            self_test(shim, first)
            reached = folder / "reached"
            reached.mkdir()
            recording = jittered(shim, first) | {"EXPRIL_JITTER_REACHED": str(reached)}
            if not pytest(f"jitter, seed {first}", recording, chosen or ["-m", "not slow"]):
                failed.append(f"jitter, seed {first}")
            if not chosen:
                tests = sorted({test for file in reached.glob("*.tests") for test in file.read_text().splitlines()})
                sys.stdout.write(f"{len(tests)} tests reach a result that was moved\n")
                (folder / "numerical").write_text("\n".join(tests))
                numerical = [f"@{folder / 'numerical'}"]
            settings = {f"jitter, seed {seed}": jittered(shim, seed) for seed in more}
        others = {} if options.only_jitter else APART if options.apart else TOGETHER
        for name, whole in (settings | others).items():
            environment, kernel = whole, whole.get("OPENBLAS_CORETYPE")
            if kernel and not runs(kernel):
                sys.stdout.write(f"\nskipped: this processor and its BLAS cannot run the kernels for {kernel}\n")
                environment = {key: told for key, told in whole.items() if key != "OPENBLAS_CORETYPE"}
            if environment and not pytest(name, environment, numerical):
                failed.append(name)
    sys.stdout.write(f"\nfailed: {'; '.join(failed)}\n" if failed else "\npassed with every setting\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
