"""The fill session: spans and their sources, canonical tokens, budget. Knows nothing of MLX."""

from fillengine.fill.constraint import Constraint
from fillengine.fill.guard import DEFAULT_GUARD, Guard
from fillengine.fill.row import Commit, Fill, Planner, Report, Round, Row, RowStats
from fillengine.fill.session import Session
from fillengine.fill.sources import Source, UnstableRest

__all__ = [
    "DEFAULT_GUARD", "Commit", "Constraint", "Fill", "Guard", "Planner", "Report", "Round", "Row", "RowStats",
    "Session", "Source", "UnstableRest",
]  # fmt: skip
