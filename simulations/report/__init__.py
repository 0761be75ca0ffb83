"""One simulation run as one self-contained web page: `model` holds the numbers, `page` writes the page."""

from simulations.report.model import (
    BudgetPoint,
    CuratorReport,
    CurvePoint,
    Expected,
    LearnerReport,
    RunReport,
    Score,
    SiteAnswers,
    SiteScore,
    decode_report,
    encode_report,
    load_report,
    save_report,
)
from simulations.report.page import build_page, write_page

__all__ = [
    "BudgetPoint",
    "CuratorReport",
    "CurvePoint",
    "Expected",
    "LearnerReport",
    "RunReport",
    "Score",
    "SiteAnswers",
    "SiteScore",
    "build_page",
    "decode_report",
    "encode_report",
    "load_report",
    "save_report",
    "write_page",
]
