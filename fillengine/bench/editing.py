"""Editing with a model: the old version of a document is the prediction of the new one.

    python -m fillengine.bench.editing [--model smollm2] [--limit 20]

A model is asked to change one field of each document of `edits`, with spans off, with assert spans, and with the old
version as prediction. Prints one JSON object for each document and one for all: forward passes, whether the tokens
are the same, and whether the answer is the document that was asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from fillengine.bench.edits import Edit, edits
from fillengine.generation.engine import Engine
from fillengine.templates import compile

MAX_TOKENS = 400


def messages(edit: Edit) -> list[dict[str, str]]:
    ask = f"Here is a JSON document:\n{edit.old}\n\nSet {edit.place} to {edit.value} and leave the rest as it is."
    return [
        {"role": "system", "content": "You edit JSON documents. Answer with the whole new document."},
        {"role": "user", "content": ask},
    ]


def measured(engine: Engine, edit: Edit) -> dict[str, Any]:
    """What one edit took in each way of filling."""
    form = compile(edit.schema)
    asked = messages(edit)
    off = engine.generate(asked, form, max_tokens=MAX_TOKENS, fill="off")
    asserted = engine.generate(asked, form, max_tokens=MAX_TOKENS, fill="assert")
    auto = engine.generate(asked, form, max_tokens=MAX_TOKENS, prediction=edit.old)
    return {
        "place": edit.place,
        "tokens": len(off.token_ids),
        "same_tokens": off.token_ids == asserted.token_ids == auto.token_ids,
        "as_asked": off.text == edit.new,
        "as_before": off.text == edit.old,
        "forwards": {"off": off.stats.forwards, "assert": asserted.stats.forwards, "auto": auto.stats.forwards},
        "seconds": {
            name: round(result.stats.decode_seconds, 3)
            for name, result in (("off", off), ("assert", asserted), ("auto", auto))
        },
    }


def total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ways = ("off", "assert", "auto")
    forwards = {way: sum(row["forwards"][way] for row in rows) for way in ways}
    return {
        "documents": len(rows),
        "same_tokens": sum(row["same_tokens"] for row in rows),
        "as_asked": sum(row["as_asked"] for row in rows),
        "as_before": sum(row["as_before"] for row in rows),
        "forwards": forwards,
        "fewer": round(forwards["off"] / forwards["auto"], 2),
        "fewest": round(min(row["forwards"]["off"] / row["forwards"]["auto"] for row in rows), 2),
        "seconds": {way: round(sum(row["seconds"][way] for row in rows), 1) for way in ways},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a known model, a folder, or a hub name")
    parser.add_argument("--limit", type=int, default=20, help="how many of the documents")
    chosen = parser.parse_args(arguments)
    engine = Engine.load(chosen.model)
    rows = []
    for edit in edits()[: chosen.limit]:
        rows.append(measured(engine, edit))
        sys.stdout.write(json.dumps(rows[-1]) + "\n")
    sys.stdout.write(json.dumps(total(rows)) + "\n")


if __name__ == "__main__":
    main()
