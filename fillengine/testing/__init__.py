"""Tests of forms, prompts and handlers without a model's weights.

    from fillengine.testing import ScriptedModel, check_form, instances

    engine = ScriptedModel('{"name": "Ada"}').engine()      # a fillengine.Engine that says what a test wants
    check_form(Person)                                      # the engine's laws, for this form

    @given(instances(Person))                               # whatever the form permits
    def test_the_handler_takes_every_person(person): ...

The strategies and checks need hypothesis (`pip install 'fillengine[testing]'`), the models do not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fillengine.testing.check import Report as Report
    from fillengine.testing.check import check_form as check_form
    from fillengine.testing.instance import instances as instances
    from fillengine.testing.laws import LawViolation as LawViolation
    from fillengine.testing.models import EchoModel as EchoModel
    from fillengine.testing.models import RandomModel as RandomModel
    from fillengine.testing.models import ScriptedModel as ScriptedModel
    from fillengine.testing.models import ToyEngine as ToyEngine
    from fillengine.testing.schema import schemas as schemas
    from fillengine.testing.tokenizer import ToyTokenizer as ToyTokenizer
    from fillengine.testing.violation import Violation as Violation
    from fillengine.testing.violation import invalid_instances as invalid_instances
    from fillengine.testing.vocabulary import vocabularies as vocabularies

_HOMES = {
    "EchoModel": "models",
    "LawViolation": "laws",
    "RandomModel": "models",
    "Report": "check",
    "ScriptedModel": "models",
    "ToyEngine": "models",
    "ToyTokenizer": "tokenizer",
    "Violation": "violation",
    "check_form": "check",
    "instances": "instance",
    "invalid_instances": "violation",
    "schemas": "schema",
    "vocabularies": "vocabulary",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fillengine.testing' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"fillengine.testing.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
