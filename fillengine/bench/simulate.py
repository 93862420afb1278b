"""Forward passes over known answers, without a model: what the sources of drafts are worth.

    python -m fillengine.bench.simulate DATA MODEL_FOLDER [--detail] [--grounded]

DATA holds records in JSON Lines with "schema", "document" and "truth"; the choices are the tokenizer's own tokens
of the true answer. A row of the table is a way of filling: forward passes per token, the share of the proposed
tokens that were accepted, the time in units of a pass over one token by the CPU's cost curve, and that against
`assert`. "mispaired": each answer is written with the document of another kind of record.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fillengine.fill import Constraint, Fill, Row
from fillengine.fill.economics import CPU_CURVE, CostCurve
from fillengine.fill.sources import Echo, OwnOutput, Prediction, Source, UnstableRest, usual_sources
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer
from fillengine.templates import compile

MakeSources = Callable[[dict[str, Any], str], Sequence[Source]]


@dataclass(frozen=True, slots=True)
class Way:
    """A way of filling. `sources` makes a row's sources from its document."""

    name: str
    fill: Fill
    sources: MakeSources


def _expected(record: dict[str, Any]) -> str:
    """The answer with one value changed: what somebody expects who edits a record."""
    truth = dict(record["truth"])
    changed = sorted(truth)[len(truth) // 2]
    return json.dumps(truth | {changed: "something else"}, ensure_ascii=False)


WAYS = (
    Way("off", "off", lambda record, document: ()),
    Way("assert", "assert", lambda record, document: ()),
    Way("rest", "auto", lambda record, document: (UnstableRest(),)),
    Way("rest + own", "auto", lambda record, document: (UnstableRest(), OwnOutput())),
    Way("rest + expected", "auto", lambda record, document: (UnstableRest(), Prediction(_expected(record)))),
    Way("rest + echo", "auto", lambda record, document: (UnstableRest(), Echo(document))),
    Way("all but expected", "auto", lambda record, document: usual_sources(source_text=document)),
)


@dataclass(slots=True)
class Account:
    """What many rows came to. `kinds` counts tokens whose turn came: (source, kind) -> [accepted, seen]."""

    tokens: int = 0
    forwards: int = 0
    asserted: int = 0
    proposed: int = 0
    accepted: int = 0
    cost: float = 0.0
    host_seconds: float = 0.0
    kinds: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    by_source: Counter[str] = field(default_factory=Counter)
    accepted_by: Counter[str] = field(default_factory=Counter)


def fill(row: Row, answer: Sequence[int], eos_id: int, account: Account, curve: CostCurve) -> None:
    """Write `answer` into `row`. Raises ValueError where the form does not allow it."""
    pending = [0]
    while not row.is_finished:
        start = time.process_time()
        planned = row.plan(pending)
        account.host_seconds += time.process_time() - start
        if planned is None:
            break
        choices = [answer[at] if at < len(answer) else eos_id for at in planned.positions]
        if not planned.masks[0].allows(choices[0]):
            raise ValueError(f"the form does not allow the answer behind {row.session.text[-40:]!r}")
        account.cost += curve.cost(len(planned.feed))
        for drafted, choice in zip(planned.draft, choices, strict=False):
            count = account.kinds.setdefault((drafted.source, drafted.kind), [0, 0])
            count[0] += drafted.token_id == choice
            count[1] += 1
            if drafted.token_id != choice:
                break
        start = time.process_time()
        pending = row.commit(planned, choices).pending
        account.host_seconds += time.process_time() - start
    account.tokens += row.session.num_tokens
    account.forwards += row.stats.forwards
    account.asserted += row.stats.asserted
    account.proposed += sum(row.stats.proposed.values())
    account.accepted += sum(row.stats.accepted.values())
    account.by_source += row.stats.proposed
    account.accepted_by += row.stats.accepted


def simulate(
    records: Sequence[dict[str, Any]],
    documents: Sequence[str],
    tokenizer: Tokenizer,
    way: Way,
    *,
    grounding: str | None = None,
    curve: CostCurve = CPU_CURVE,
) -> Account:
    """Fill the answer of each record, its document being the one at the same place of `documents`.

    `grounding` holds the forms to the documents (None: they are free); answers that do not fit then are left out.
    """
    forms: dict[str, Any] = {}
    constraints: dict[str, Constraint] = {}
    account = Account()
    assert tokenizer.encoder is not None
    eos_id = min(tokenizer.vocabulary.eos_ids)
    for record, document in zip(records, documents, strict=True):
        key = json.dumps(record["schema"], sort_keys=True)
        if key not in forms:
            forms[key] = compile(record["schema"])
            constraints[key] = Constraint(forms[key], tokenizer)
        constraint = constraints[key]
        text = json.dumps(record["truth"], ensure_ascii=False)
        if grounding is not None:
            constraint = Constraint(forms[key].ground(document, grounding), tokenizer)
            if not constraint.accepts(text):
                continue
        answer = tokenizer.encoder.encode(text)
        row = Row(
            constraint.session(max_tokens=2_000), fill=way.fill, sources=way.sources(record, document), curve=curve
        )
        fill(row, answer, eos_id, account, curve)
    return account


def mispaired(records: Sequence[dict[str, Any]]) -> list[str]:
    """For each record the document of one with another schema."""
    count = len(records)
    found = []
    for index, record in enumerate(records):
        other = next(
            (
                candidate["document"]
                for step in range(1, count)
                if (candidate := records[(index + step) % count])["schema"] != record["schema"]
            ),
            "",
        )
        found.append(other)
    return found


def table(accounts: dict[str, Account]) -> str:
    """One line for each way of filling."""
    lines = [f"{'':18}{'passes':>8}{'/token':>8}{'accepted':>10}{'of':>7}{'':>7}{'time':>9}{'ratio':>7}{'host ms':>9}"]
    base = accounts["assert"]
    for name, account in accounts.items():
        share = f"{account.accepted / account.proposed:.2f}" if account.proposed else "-"
        lines.append(
            f"{name:18}{account.forwards:8}{account.forwards / account.tokens:8.3f}{account.accepted:10}"
            f"{account.proposed:7}{share:>7}{account.cost:9.0f}{base.cost / account.cost:7.2f}"
            f"{account.host_seconds / account.forwards * 1e3:9.3f}"
        )
    return "\n".join(lines)


def detail(account: Account) -> str:
    """Acceptance by source and kind, of tokens whose turn came."""
    lines = [
        f"    {source:10}{kind:18}{accepted:6}{seen:6}{accepted / seen:7.2f}"
        for (source, kind), (accepted, seen) in sorted(account.kinds.items())
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model_folder", type=Path)
    parser.add_argument("--detail", action="store_true", help="acceptance by source and kind")
    parser.add_argument("--grounded", action="store_true", help="also with the forms held to the documents")
    chosen = parser.parse_args(arguments)
    tokenizer = read_tokenizer(chosen.model_folder)
    records = [json.loads(line) for line in chosen.data.read_text(encoding="utf-8").splitlines() if line]
    own = [record["document"] for record in records]
    runs: list[tuple[str, Sequence[str], str | None]] = [("paired", own, None), ("mispaired", mispaired(records), None)]
    if chosen.grounded:
        runs.append(("grounded", own, "verbatim"))
    for title, documents, grounding in runs:
        accounts = {way.name: simulate(records, documents, tokenizer, way, grounding=grounding) for way in WAYS}
        sys.stdout.write(f"{title}\n{table(accounts)}\n")
        if chosen.detail:
            sys.stdout.write(f"{detail(accounts[WAYS[-1].name])}\n")


if __name__ == "__main__":
    main()
