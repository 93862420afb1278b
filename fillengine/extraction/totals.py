"""What a run has done so far, summed over its documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fillengine.extraction.extract import ExtractionError

if TYPE_CHECKING:
    from fillengine.generation.result import Result


@dataclass(slots=True)
class Totals:
    """Counts are of tokens unless named otherwise; times are seconds.

    `prefill_seconds` and `decode_seconds` are sums over documents, which overlap when they run together;
    `elapsed_seconds` is the time of the whole run without loading the model, set by whoever runs it.
    """

    num_documents: int = 0
    num_failed: int = 0
    first_failure: ExtractionError | None = None
    emitted: int = 0
    asserted: int = 0
    proposed: int = 0
    accepted: int = 0
    sampled: int = 0
    forwards: int = 0
    num_closed: int = 0  # runaway values that the guard ended
    prompt_tokens: int = 0
    reused_prompt_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    elapsed_seconds: float = 0.0

    def add(self, outcome: Result | ExtractionError) -> None:
        self.num_documents += 1
        if isinstance(outcome, ExtractionError):
            self.num_failed += 1
            self.first_failure = self.first_failure or outcome
            return
        stats = outcome.stats
        self.emitted += len(outcome.token_ids)
        self.asserted += stats.asserted
        self.proposed += stats.proposed
        self.accepted += stats.accepted
        self.sampled += stats.sampled
        self.forwards += stats.forwards
        self.num_closed += len(stats.closed)
        self.prompt_tokens += stats.prompt_tokens
        self.reused_prompt_tokens += stats.reused_prompt_tokens
        self.prefill_seconds += stats.prefill_seconds
        self.decode_seconds += stats.decode_seconds

    @property
    def forwards_per_token(self) -> float | None:
        return self.forwards / self.emitted if self.emitted else None
