"""A tiny tokenizer, forms for it, and an engine of a tiny model."""

from __future__ import annotations

import re

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fillengine.automata.nodes import Literal as Text
from fillengine.automata.nodes import Pattern, Sequence, Template
from fillengine.automata.regex import from_regex
from fillengine.generation.engine import Engine
from fillengine.generation.models import LoadedModel

END = "<|end|>"
MERGES = [('"', ","), ("Ġ", '"'), ("a", "b"), ("n", "a"), (":", "Ġ"), ("{", '"')]
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


def tiny_tokenizer() -> TokenizerWrapper:
    """Byte-level BPE: 256 bytes, a few merges, an end token."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(one + other for one, other in MERGES)]
    inner = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=MERGES))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([END])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, chat_template=CHAT)
    return TokenizerWrapper(wrapped)


class TinyForm:
    """What the engine needs of a form. bytes: a literal, str: a regular expression."""

    def __init__(self, *parts):
        nodes = [Text(part) if isinstance(part, bytes) else Pattern(from_regex(part)) for part in parts]
        self.template = Template(Sequence(tuple(nodes)))
        self.regex = b"".join(re.escape(p) if isinstance(p, bytes) else p.encode() for p in parts)

    def parse(self, text):
        assert re.fullmatch(self.regex.decode(), text)
        return {"read": text}


FORM = TinyForm(
    b'{"name": "',
    "[a-d ]{1,12}",
    b'", "kind": ',
    '("on"|"off"|"once")',
    b', "sum": ',
    "[1-9][0-9]{0,3}",
    b"}",
)
PLAIN = TinyForm("[a-z]{3,9}")


def tiny_engine(*, context_length=200, **options) -> Engine:
    tokenizer = tiny_tokenizer()
    model = tiny.tiny_llama(num_logits=len(tokenizer.get_vocab()) + 5)
    return Engine(LoadedModel(model, tokenizer, "tiny", None, context_length, frozenset()), **options)


def outcomes(engine, requests, batch_size, **options):
    found = list(engine.run(requests, batch_size=batch_size, **options))
    assert [index for index, _ in found] == list(range(len(found)))
    return [outcome for _, outcome in found]
