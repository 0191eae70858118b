"""Figures as PNGs and one page that opens offline."""

from featscope.report.draw import draw
from featscope.report.folder import write_report
from featscope.report.page import write_page

__all__ = ["draw", "write_page", "write_report"]
