"""Text forms on the command line: --regex, --choice, --grammar, Python objects, and the grammars that are shipped."""

from __future__ import annotations

import json

import pytest


def value(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["value"]


def first_word(document):
    return document.split()[0]


def test_a_regex_gives_a_text(line):
    line.engine.answer = first_word
    assert value(line.run("extract", "--regex", "[A-Z]+-[0-9]+", line.write("a.txt", "AB-12 is broken"))) == "AB-12"
    prompt = line.engine.prompts[0]
    assert "one JSON object" not in prompt[0]["content"]
    assert "matches the regular expression [A-Z]+-[0-9]+" in prompt[-1]["content"]
    assert prompt[-1]["content"].endswith("AB-12 is broken")


def test_choices_are_one_of_the_texts(line):
    line.engine.answer = first_word
    arguments = ("--choice", "urgent", "--choice", "can wait", line.write("a.txt", "urgent matters"))
    assert value(line.run("extract", *arguments)) == "urgent"
    assert "one of: urgent, can wait" in line.engine.prompts[0][-1]["content"]


def test_a_grammar_is_a_file_or_a_name(line):
    line.engine.answer = first_word
    document = line.write("a.txt", "1.2.3 is out")
    assert value(line.run("extract", "--grammar", "semver", document)) == "1.2.3"
    assert "A version of Semantic Versioning" in line.engine.prompts[0][-1]["content"]
    line.write("dots.gbnf", 'root ::= [0-9] ("." [0-9])*\n')
    assert value(line.run("extract", "--grammar", "dots.gbnf", document)) == "1.2.3"
    assert 'root ::= [0-9] ("." [0-9])*' in line.engine.prompts[1][-1]["content"]


def test_the_value_of_a_template_is_an_object_of_its_holes(line):
    code = "import datetime\nimport fillengine as fe\nnote = fe.Template('{who}\\n{day}', who=str, day=datetime.date)\n"
    line.write("notes_a.py", code)
    line.engine.answer = lambda document: "Ann\n2024-02-29"
    assert value(line.run("extract", "-s", "notes_a:note", line.write("a.txt", "x"))) == {
        "who": "Ann",
        "day": "2024-02-29",
    }
    assert "{who}\n{day}\n- who: text\n- day: a date" in line.engine.prompts[0][-1]["content"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no form is given; give one of --schema, --regex, --choice and --grammar"),
        (["--regex", "a", "--choice", "b"], "several forms are given; give one of --schema"),
        (["--regex", "(a"], "(a: pattern '(a' cannot be read at column 3: a group is not closed"),
        (["--grammar", "none.gbnf"], "none.gbnf: there is no such file, and no grammar of this name"),
        (["--grammar", "bad.gbnf"], "bad.gbnf, line 2, column 1: rule x is never used from root"),
    ],
)
def test_a_form_that_is_wrong_is_one_line(line, arguments, says):
    line.write("bad.gbnf", 'root ::= "a"\nx ::= "b"\n')
    result = line.run("extract", *arguments, line.write("a.txt", "A"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"fillengine: error: {says}")
    assert result.stderr.count("\n") == 1


def test_inspect_shows_text_forms(line):
    assert "⟨no | yes⟩" in line.run("inspect", "--choice", "yes", "--choice", "no").stdout
    assert "⟨[a-z]+⟩" in line.run("inspect", "--regex", "[a-z]+").stdout
    assert "↻ value" in line.run("inspect", "--grammar", "json").stdout
    assert "give one of FILE, --regex" in line.run("inspect").stderr


def test_shipped_grammars_are_listed_with_a_line_each(line):
    from fillengine.templates.library import shipped

    listed = line.run("grammars").stdout.splitlines()
    assert [row.split()[0] for row in listed] == list(shipped())
    assert all(row.endswith(grammar.summary) for row, grammar in zip(listed, shipped().values(), strict=True))


def test_a_shipped_grammar_is_shown_as_it_is(line):
    from fillengine.templates.library import shipped

    assert line.run("grammars", "show", "csv").stdout == shipped()["csv"].text
    result = line.run("grammars", "show", "cvs")
    assert result.exit_code == 2
    assert result.stderr.startswith("fillengine: error: no grammar 'cvs' is shipped; there are: arithmetic, ")
