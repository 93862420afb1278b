"""Shared by the tests of JSON Schema forms: machines from schemas, and random texts that a machine allows."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fillengine.automata.machine import Machine
from fillengine.templates import compile


def machine(schema: Any, **options: Any) -> Machine:
    return Machine(compile(schema, **options).template)


def accepts(schema: Any, value: Any, **options: Any) -> bool:
    """Whether the form allows the value as json.dumps writes it."""
    return machine(schema, **options).accepts(json.dumps(value, ensure_ascii=False).encode())


def random_text(automaton: Machine, random: Random, wander: int = 60) -> str:
    """A text of the machine: `wander` random bytes, then the shortest way to an end."""
    state, text = automaton.start, bytearray()
    while not (state.is_accepting and (len(text) >= wander or not state.next_bytes())):
        options = []
        for byte in state.next_bytes():
            after = automaton.step(state, byte)
            assert after is not None, "a byte that is announced can be written"
            options.append((byte, after))
        assert options, f"a dead end behind {bytes(text)!r}"
        if len(text) < wander:
            # Bytes above 127 are most of what a string allows, and none of what is interesting.
            plain = [option for option in options if option[0] < 128] or options
            byte, state = random.choice(plain)
        else:
            byte, state = min(options, key=lambda option: automaton.cost(option[1]))
        text.append(byte)
        assert len(text) < 20_000, "the shortest way to an end is not that long"
    return text.decode()
