"""Figures as PNGs and one page that opens offline."""

from featscope.report.draw import draw
from featscope.report.folder import write_report
from featscope.report.page import Content, write_page
from featscope.report.run_report import report_run

__all__ = ["Content", "draw", "report_run", "write_page", "write_report"]
