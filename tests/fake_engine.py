"""An engine without a model: the answer of a document is its first word, as {"word": ...}."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from vocabularies import byte_level_tokenizer

from fillengine.errors import FillError
from fillengine.fill.row import RoundTrace
from fillengine.generation.explanation import Explanation
from fillengine.generation.result import Trace

WORD_SCHEMA = {
    "title": "Word",
    "type": "object",
    "properties": {"word": {"type": "string", "description": "The first word"}},
    "required": ["word"],
    "additionalProperties": False,
}


@dataclass
class FakeStats:
    forwards: int = 3
    asserted: int = 4
    proposed: int = 2
    accepted: int = 1
    sampled: int = 2
    prompt_tokens: int = 10
    reused_prompt_tokens: int = 6
    prefill_seconds: float = 0.25
    decode_seconds: float = 0.5
    closed: tuple[str, ...] = ()


@dataclass
class FakeResult:
    text: str
    parse: Callable[[str], Any] = json.loads
    finish_reason: str = "stop"
    token_ids: list[int] = field(default_factory=lambda: list(range(7)))
    stats: FakeStats = field(default_factory=FakeStats)

    @property
    def value(self) -> Any:
        return self.parse(self.text)

    def explain(self) -> Explanation:
        """Each byte is a token that the model chose."""
        data = self.text.encode()
        trace = Trace(tuple(RoundTrace(0, (), 0, byte) for byte in data), [bytes([byte]) for byte in range(256)])
        shown = SimpleNamespace(text=self.text, token_ids=list(data), stats=self.stats, trace=trace, logprobs=None)
        return Explanation(shown)  # type: ignore[arg-type]


def first_word(text: str) -> str:
    return json.dumps({"word": text.split()[0]}, ensure_ascii=False)


@dataclass
class FakeRequest:
    prompt: list[int]
    document: str
    form: Any
    options: dict[str, Any]


@dataclass
class FakeEngine:
    """`answer` makes the text of an answer from the document, or raises what the engine would raise."""

    answer: Callable[[str], str] = first_word
    context_length: int | None = 4000
    tokenizer: Any = field(default_factory=byte_level_tokenizer)
    requests: list[FakeRequest] = field(default_factory=list)
    prompts: list[list[dict[str, str]]] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)

    def request(self, prompt: list[dict[str, str]], form: Any, **options: Any) -> FakeRequest:
        self.prompts.append(prompt)
        length = sum(len(message["content"]) for message in prompt) // 4
        return FakeRequest([0] * length, prompt[-1]["content"].split("Document:\n", 1)[1], form, options)

    def run(self, requests: Iterable[FakeRequest], *, batch_size: int) -> Iterator[tuple[int, FakeResult | FillError]]:
        self.batch_sizes.append(batch_size)
        requests = iter(requests)
        index = 0
        while batch := list(itertools.islice(requests, batch_size)):
            for request in batch:
                self.requests.append(request)
                try:
                    text = self.answer(request.document)
                    yield index, FakeResult(text, parse=request.form.parse)
                except FillError as error:
                    yield index, error
                index += 1
