"""What each layer holds of what it has read."""

from featscope.language.caches.all_queries import AllQueries
from featscope.language.caches.full import Full, Selected
from featscope.language.caches.head_budgets import HeadBudgets
from featscope.language.caches.last_queries import LastQueries
from featscope.language.caches.layer_budgets import LayerBudgets
from featscope.language.caches.press import Press

__all__ = ["AllQueries", "Full", "HeadBudgets", "LastQueries", "LayerBudgets", "Press", "Selected"]
