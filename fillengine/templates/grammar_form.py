"""`Grammar`: a text of a context-free grammar in GBNF, the notation of llama.cpp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Node, Template
from fillengine.errors import InvalidForm
from fillengine.templates.form import Form
from fillengine.templates.gbnf import nodes, parse
from fillengine.templates.library import shipped
from fillengine.templates.nesting import nested
from fillengine.templates.text_form import Compile, Matcher, TextForm


class Grammar(TextForm):
    r"""A text of a grammar:

    Grammar('root ::= "(" root ")" | [a-z]+')            GBNF text: whatever has a rule in it
    Grammar("orders.gbnf")                               a file, also as a Path
    Grammar.named("csv")                                 one that is shipped, see `fillengine grammars`
    Grammar('root ::= "Order: " order "\n"', order=Order)    rules that are other forms

    The value is the text. Raises InvalidForm where the file cannot be read, and with line and column for what is
    wrong in the grammar: syntax, rules that are missing, defined twice, never used from `root` or left recursive.
    """

    def __init__(self, grammar: str | Path, /, **rules: Any) -> None:
        if isinstance(grammar, Path) or "::=" not in grammar:
            self.source, self.text = str(grammar), _read(grammar)
        else:
            self.source, self.text = "the grammar", grammar
        self.rules = rules
        shown = "".join(f", {name}={form!r}" for name, form in rules.items())
        self._shown = f"Grammar({grammar!r}{shown})"
        self.grammar = parse(self.text, source=self.source, others=frozenset(rules))

    @classmethod
    def named(cls, name: str) -> Grammar:
        """A shipped grammar. Raises InvalidForm for an unknown name."""
        found = shipped().get(name)
        if found is None:
            raise InvalidForm(f"no grammar {name!r} is shipped", remedy=f"there are: {', '.join(shipped())}")
        grammar = cls(found.text)
        grammar.source = f"the grammar {name}"
        grammar._shown = f"Grammar.named({name!r})"
        return grammar

    def __repr__(self) -> str:
        return self._shown

    @property
    def description(self) -> str:
        first = self.text.partition("\n")[0]
        return (
            f"a text of this kind: {first.lstrip('# ')}"
            if first.startswith("#")
            else f"a text of this grammar:\n{self.text}"
        )

    def form(self, compiled: Compile) -> Form:
        forms = {name: compiled(form) for name, form in self.rules.items()}
        for name, form in forms.items():
            if Machine(form.template).start.is_accepting:
                raise InvalidForm(
                    f"{self.source}: the form {name} may be empty",
                    remedy=f"make it one character at least, and write {name}? where it may be missing",
                )

        def assemble(template_of: Callable[[Form], Template]) -> Template:
            rules: dict[str, Node] = {}
            others = {name: nested(template_of(form), "", rules, name=f"form {name}") for name, form in forms.items()}
            own = nodes(self.grammar, others)
            return Template(own.root, {**own.rules, **rules})

        template = assemble(lambda form: form.template)
        matcher = Matcher(template)

        def read(text: str) -> str:
            matcher.check(text, f"text of {self.source}")
            return text

        hold = (lambda ground: assemble(lambda form: form.held(ground))) if forms else None
        return Form(template, source=self, read=read, hold=hold)


def _read(grammar: str | Path) -> str:
    path = Path(grammar)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hints = [f"Grammar.named({str(grammar)!r}) is shipped"] if str(grammar) in shipped() else []
        hints.append("the text of a grammar has rules, as in 'root ::= [a-z]+'")
        raise InvalidForm(f"{grammar}: cannot be read as a grammar file: {problem}", remedy="; ".join(hints)) from error
