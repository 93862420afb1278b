"""Random texts of a template: walks over the bytes that its machine allows."""

from __future__ import annotations

import random
from typing import Any

from fillengine.automata.machine import Machine
from fillengine.templates import compile


def machine_of(form: Any) -> Machine:
    return Machine(compile(form).template)


def random_text(machine: Machine, seed: int, *, long: int = 80) -> str:
    """A text of the machine's template. After `long` bytes only bytes are taken that bring its end nearer."""
    dice = random.Random(seed)
    state, text = machine.start, bytearray()
    while not state.is_final:
        if state.is_accepting and (len(text) >= long or dice.random() < 0.08):
            break
        options = list(state.next_bytes())
        if len(text) >= long:
            left = {byte: machine.cost(following) for byte in options if (following := machine.step(state, byte))}
            options = [byte for byte in options if left[byte] == min(left.values())]
        byte = _chosen(options, dice)
        text.append(byte)
        following = machine.step(state, byte)
        assert following is not None
        state = following
    return text.decode()


def _chosen(options: list[int], dice: random.Random) -> int:
    """One of the bytes: as often a sign as a letter, though most classes hold mostly what is outside ASCII."""
    kinds: list[list[int]] = [[], [], []]
    for byte in options:
        kinds[0 if chr(byte).isalnum() and byte < 0x80 else 1 if 0x20 < byte < 0x7F else 2].append(byte)
    weights = [weight if kind else 0 for weight, kind in zip((8, 8, 2), kinds, strict=True)]
    return dice.choice(dice.choices(kinds, weights)[0])


def mutated(text: str, seed: int) -> str:
    """The text with one to three characters dropped, doubled, exchanged or replaced."""
    dice = random.Random(seed)
    signs = list(text)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(signs) + 1)
        kind = dice.randrange(4)
        if kind == 0 and signs:
            del signs[min(place, len(signs) - 1)]
        elif kind == 1:
            signs.insert(place, dice.choice("ab01 ()[]{},.;:\"'\\-+*/=\n|é"))
        elif kind == 2 and len(signs) > 1:
            place = min(place, len(signs) - 2)
            signs[place], signs[place + 1] = signs[place + 1], signs[place]
        elif signs:
            signs.insert(place, signs[min(place, len(signs) - 1)])
    return "".join(signs)
