"""The report of the study: what readers of a repository see, with the figures beside the tables."""

from expril.report.markdown import origin, plain, table
from lab.sample import tables, words
from lab.sample.domains import RANDOM_1D
from lab.sample.figures import figures
from lab.sample.model import Found

_ALT = {
    "figure1.svg": "Figure 1: densities on the ring that look about alike",
    "figure4.svg": "Figure 4: densities on the ring over epsilon, DPB above MBDE",
    "figure4-wide.svg": "Figure 4 on the wide ring, DPB above MBDE",
    "figure5.svg": "Figure 5: negative log-likelihood and mode coverage against epsilon",
    "figure6.svg": "Figure 6: mode coverage of MBDE on random Gaussians on a line",
    "figure7.svg": "Figure 7: negative log-likelihood on random Gaussians on a line",
    "figure8.svg": "Figure 8: densities of random Gaussians in the plane, DPB above MBDE",
}


def build_markdown(found: Found) -> str:
    """Return the claims, the figures, every table, and where the numbers come from."""
    drawn = [f"![{_ALT[name]}]({name})" for name in figures(found)]
    parts = [
        f"# {plain(words.headline(found))}",
        (
            "Husain, Cranko and Nock, *Integral Privacy for Sampling from Mollifier Densities with Approximation "
            "Guarantees*: Figures 1, 4, 5, 6, 7 and 8 run again by `expril simulate sample`."
        ),
        plain(words.CAVEAT),
        plain(words.repeats(found)),
        "## Claims",
        table(tables.claims(found)),
        plain(words.BOUND),
        "## Theorems",
        plain(words.theorems(found)),
        table(tables.checks(found)),
        "## Figures",
        (
            "Shades follow the square root of the density, each picture up to its own peak; bands are one standard "
            "deviation over the repeats. The paper's figures were not at hand as numbers, so that only what its text "
            "says is compared."
        ),
        *drawn,
        "## How it was run",
        *(plain(text) for text in (words.SETTINGS, words.DPB_WORDS, words.DPGAN_WORDS, words.UNSAID, words.COVERAGE)),
    ]
    plane = [domain for domain in found.domains if not domain.startswith(RANDOM_1D)]
    parts += ["## Numbers", "Mean ± standard deviation over the repeats. The CSV files have all, unrounded."]
    parts.append(table(tables.measures(found, plane)))
    for shown in tables.all_lines(found):
        parts += [f"### {plain(shown.caption)}", table(shown)]
    parts += origin([("Study", found.provenance)])
    return "\n\n".join(part for part in parts if part) + "\n"
