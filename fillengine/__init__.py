"""Make a local language model answer in a given form: always valid, and fast.

import fillengine as fe

template = fe.compile({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
engine = fe.load("smollm2")
result = engine.generate([{"role": "user", "content": "Who wrote Emma?"}], template)
result.value          # {"name": "Jane Austen"}
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fillengine.errors import AutomatonTooLarge as AutomatonTooLarge
    from fillengine.errors import BudgetTooSmall as BudgetTooSmall
    from fillengine.errors import ContextExceeded as ContextExceeded
    from fillengine.errors import DocumentError as DocumentError
    from fillengine.errors import FillError as FillError
    from fillengine.errors import FormError as FormError
    from fillengine.errors import InvalidForm as InvalidForm
    from fillengine.errors import ModelError as ModelError
    from fillengine.errors import Stopped as Stopped
    from fillengine.errors import TokenRejected as TokenRejected
    from fillengine.errors import UnsatisfiableForm as UnsatisfiableForm
    from fillengine.errors import UnsupportedForm as UnsupportedForm
    from fillengine.errors import VocabularyError as VocabularyError
    from fillengine.extraction.engine import Engine as Engine
    from fillengine.extraction.engine import load as load
    from fillengine.extraction.extract import ExtractionError as ExtractionError
    from fillengine.extraction.filled import Filled as Filled
    from fillengine.extraction.filled import filled as filled
    from fillengine.fill import Constraint as Constraint
    from fillengine.fill import Guard as Guard
    from fillengine.fill import Session as Session
    from fillengine.generation.service import Service as Service
    from fillengine.templates import Call as Call
    from fillengine.templates import Choice as Choice
    from fillengine.templates import Form as Form
    from fillengine.templates import FormWarning as FormWarning
    from fillengine.templates import Grammar as Grammar
    from fillengine.templates import Many as Many
    from fillengine.templates import Regex as Regex
    from fillengine.templates import Template as Template
    from fillengine.templates import Thinking as Thinking
    from fillengine.templates import ToolAnswer as ToolAnswer
    from fillengine.templates import Tools as Tools
    from fillengine.templates import Verbatim as Verbatim
    from fillengine.templates import compile as compile

__version__ = "0.1.0"

_ERRORS = (
    "AutomatonTooLarge", "BudgetTooSmall", "ContextExceeded", "DocumentError", "FillError", "FormError", "InvalidForm",
    "ModelError", "Stopped", "TokenRejected", "UnsatisfiableForm", "UnsupportedForm", "VocabularyError",
)  # fmt: skip

# Imported when first asked for: a schema is checked, and `--help` answers, without loading MLX.
_HOMES: dict[str, str] = {
    **dict.fromkeys(_ERRORS, "fillengine.errors"),
    "Engine": "fillengine.extraction.engine",
    "load": "fillengine.extraction.engine",
    "ExtractionError": "fillengine.extraction.extract",
    "Filled": "fillengine.extraction.filled",
    "filled": "fillengine.extraction.filled",
    "Constraint": "fillengine.fill",
    "Guard": "fillengine.fill",
    "Session": "fillengine.fill",
    "Service": "fillengine.generation.service",
    "Choice": "fillengine.templates",
    "Form": "fillengine.templates",
    "FormWarning": "fillengine.templates",
    "Grammar": "fillengine.templates",
    "Many": "fillengine.templates",
    "Regex": "fillengine.templates",
    "Template": "fillengine.templates",
    "Call": "fillengine.templates",
    "Thinking": "fillengine.templates",
    "ToolAnswer": "fillengine.templates",
    "Tools": "fillengine.templates",
    "Verbatim": "fillengine.templates",
    "compile": "fillengine.templates",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fillengine' has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
