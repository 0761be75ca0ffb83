"""What the study says in sentences."""

from lab.sample.cells import DPB, DPGAN, MBDE, REPEATS
from lab.sample.claims import claims_of
from lab.sample.model import Found

CAVEAT = (
    "The epsilons are not alike. MBDE's is of one sampled record, under integral privacy: any data against any other; "
    "k records cost k times as much. DPB's is of the whole density, from which any number of records may be drawn, "
    "under ordinary differential privacy: one record replaced, n public. DPGAN's is of the whole generator, with "
    "delta 0.1, and the bandwidth of DPB is chosen by cross-validation on the records, unpaid for, as in the paper. "
    "So a lower epsilon of MBDE for equal likelihood is no cheaper study, and the comparison follows the paper's."
)
BOUND = (
    "By Theorem 7 (10) no density of the mollifier is nearer to the target than Q0 is by more than epsilon / 2 nats, "
    "whatever the learner: at epsilon 2 the NLL is at most 1 below that of Q0. Larger gains at such an epsilon cannot "
    "come from a density whose classifiers are clipped to log 2. The authors' published code "
    "(github.com/karokaram/PrivatedBoostedDensities, src/run_privacy_experiment.jl) adds the logits of its networks "
    "unclipped, with no bound on the ratio of densities, so its figures need not be of densities in the mollifier."
)
COVERAGE = (
    "Mode coverage is described as the mass of the target under the densest region that holds 0.95 of the model, and "
    "printed as P(dQ < t) with Q(dQ < t) = 0.95, which is the least dense region: the inequality is the wrong way "
    "round. The tables have both. The authors' code computes the densest region "
    "(github.com/karokaram/PrivatedBoostedDensities, src/metrics.jl). But where Q is much wider than P, as here at "
    "every epsilon on a line and on the ring, that is near 1 whatever Q is, and it shows nothing; the fall and rise "
    "that the paper describes can be seen in the formula as it is printed. Figures 5 and 6 and the claim's verdict "
    "therefore follow the formula."
)
SETTINGS = (
    "10,000 records for every method, the same in a repeat. MBDE: the curator's own code (curator_node/kinds/samples), "
    "T = 3, 10,000 records and 10,000 exact draws of Q_{t-1}, network 25-25-25 tanh, Nesterov's method at rate 0.01, "
    "momentum 0.9; on a line 750 epochs of all examples at once; in the plane 75 epochs in batches of 250, since the "
    "paper names no batch and 750 steps of all examples at once leave the ring's classifiers near their first weights "
    "(rows “one batch”). Q0 is a standard Gaussian on [-4, 4] in each coordinate ([-8, 8] for the wide ring), in 800 "
    "cells on a line and 160 by 160 in the plane. Targets are restricted to a box that holds all but 1e-5 of them, "
    "and both measures are exact sums over cells: no sample of P, no Metropolis-Hastings."
)
UNSAID = (
    "The paper does not say: radius and variance of the ring (here 1 and 0.01; radius 4 and variance 1/2, the default "
    "of the authors' earlier code, is the wide ring), how many Gaussians lie in the plane and where (here 5, uniform "
    "in the unit square), whether the second number of the mixture's parts is a variance (taken so, as with the "
    "random ones), degree and sensitivity of DPB, epsilon of DPGAN."
)
DPB_WORDS = (
    "DPB: the kernel density estimate at the (k + 1)^d points of a lattice of the target's box, Laplace noise of "
    "scale S (k + 1)^d / epsilon on each, S = (2 pi s^2)^(-d/2) / n with bandwidth s in units of the box (one of n "
    "records replaced moves one of n kernels between 0 and its peak), and the Bernstein polynomial of these. “Plain” "
    "has k = 40 on a line and 20 in the plane, shifted and scaled to be positive (least density 0.001 of the uniform "
    "one). “Best lattice” takes at every epsilon the best of k in 20, 40, 80 (10, 20, 30), the operator once or "
    "iterated three times, shifted or cut off, by the likelihood of the target itself, which nobody has: it flatters "
    "DPB. The shift is computed from the released polynomial, so here it costs no privacy."
)
DPGAN_WORDS = (
    "DPGAN: a Wasserstein GAN by Opacus 1.6, batches of 128, delta 0.1, weights of the critic clipped to 0.3, "
    "gradients of pairs of a record and a generated point to 1; 2,000 steps of the critic and 400 of the generator, "
    "that is 26 epochs, where the paper has 10,000. Its density is a kernel estimate of 10,000 generated points."
)


def headline(found: Found) -> str:
    """The answer in one line."""
    verdicts = [claim.verdict for claim in claims_of(found)]
    return (
        f"MBDE run again: of {len(verdicts)} claims {verdicts.count('holds')} hold, {verdicts.count('in part')} in "
        f"part, {verdicts.count('does not hold')} do not"
        + (f", {verdicts.count('not measured')} were not measured" if "not measured" in verdicts else "")
    )


def theorems(found: Found) -> str:
    """How often each theorem was kept, over everything."""
    if not found.checks:
        return ""

    def total(name: str) -> int:
        return sum(getattr(check, name) for check in found.checks)

    densities, steps, weak, high = (total(name) for name in ("densities", "steps", "weak", "high"))
    furthest = max(check.furthest for check in found.checks)
    sentences = [
        (
            f"Of {densities} densities {total('in_range')} lie in the mollifier (Theorem 5; the largest |log Q_T / "
            f"Q0| is {furthest:.3f} of what it may be), and {total('below_most')} gain at most epsilon / 2 (Theorem 7 "
            f"(10))."
        ),
        (
            f"Of {steps} classifiers {weak} are weak learners as in Definition 1, and {total('high_steps')} are in the "
            f"high regime; {high} densities stay in it, as (11) asks."
        ),
    ]
    if broken := weak - total("above_printed"):
        sentences.append(
            f"Theorem 6 as printed is broken by {broken} of the {weak}: in the low regime (9) lacks a factor c* = log "
            f"2, which the paper's own Lemma 13 has. With it {total('above_proved')} of {weak} keep it."
        )
    else:
        sentences.append(f"Theorem 6 is kept by all {weak}.")
    kept = total("above_least")
    sentences.append(
        f"Theorem 7 (11) as printed is kept by {kept} of the {high} densities that stay in the high regime"
        + (
            f". Its proof takes Gamma(z) = log(4 / (5 - 3 z)) for at least z log 2, and it is at most that: what does "
            f"follow, the sum of the drops that Theorem 6 promises, is kept by {total('above_least_proved')} of "
            f"{high}."
            if kept < high
            else "."
        )
    )
    return " ".join(sentences)


def repeats(found: Found) -> str:
    """How many repeats are finished, where it is fewer than the paper's four."""
    least: dict[tuple[str, str], int] = {}
    for row in found.rows:
        if row.method in (MBDE, DPB, DPGAN):
            key = (row.domain, "DPGAN" if row.method == DPGAN else "")
            least[key] = min(least.get(key, row.nll.runs), row.nll.runs)
    if not least or min(least.values()) >= REPEATS:
        return ""
    told = ", ".join(f"{' '.join(filter(None, key))} {runs}" for key, runs in least.items())
    return (
        f"The study asks for {REPEATS} repeats, as the paper has; this run was ended before all were done. Finished "
        f"at every epsilon: {told}. Deviations of so few are rough. With cells.jsonl in runs/sample the same command "
        f"goes on."
    )
