"""Bad input: one line on standard error with the place and the remedy, exit code 2, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_engine import WORD_SCHEMA

from fillengine.errors import ModelError


def complaint(result) -> str:
    """The message of a command that refused its input."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("fillengine: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("fillengine: error: ").rstrip("\n")


def with_word(**keywords) -> str:
    return json.dumps({**WORD_SCHEMA, "properties": {"word": keywords}})


class TestSchemas:
    def extract(self, line, spec):
        return complaint(line.run("extract", "--schema", spec, line.write("a.txt", "A")))

    def test_a_missing_file(self, line):
        assert self.extract(line, "gone.json") == (
            "gone.json: no such file; check the path, or name a Python object as module:Name"
        )

    def test_a_folder(self, line):
        (line.folder / "schemas").mkdir()
        assert self.extract(line, "schemas") == "schemas: is a folder; name a JSON Schema file"

    def test_json_that_does_not_parse_is_told_with_line_and_column(self, line):
        spec = line.write("bad.json", '{\n  "type": "object",\n  "properties": {,}\n}')
        assert self.extract(line, spec) == (
            "bad.json: not JSON: Expecting property name enclosed in double quotes at line 3, column 18; "
            "correct the file"
        )

    def test_an_empty_file(self, line):
        assert self.extract(line, line.write("bad.json", "")) == "bad.json: the file is empty"

    def test_a_file_that_is_not_utf_8(self, line):
        assert self.extract(line, line.write("bad.json", b'{"title": "\xe9"}')) == (
            "bad.json: not UTF-8 (byte 0xe9 at offset 11); convert it to UTF-8"
        )

    def test_json_that_is_no_schema(self, line):
        message = self.extract(line, line.write("bad.json", '["type", "object"]'))
        assert message.startswith("bad.json: ")

    def test_a_keyword_with_a_wrong_value_is_told_with_its_place(self, line):
        message = self.extract(line, line.write("bad.json", with_word(type="strnig")))
        assert message.startswith("bad.json: ")
        assert "/properties/word" in message
        assert "strnig" in message

    @pytest.mark.parametrize(
        ("keywords", "named"),
        [
            ({"type": "string", "minLength": 5, "maxLength": 2}, "5"),
            ({"enum": []}, ""),
            ({"type": "integer", "minimum": 3, "maximum": 1}, "no number fits"),
        ],
    )
    def test_a_schema_that_nothing_satisfies_is_told_with_its_place(self, line, keywords, named):
        message = self.extract(line, line.write("bad.json", with_word(**keywords)))
        assert message.startswith("bad.json: at /properties/word")
        assert named in message

    def test_false_for_a_required_property_is_told_with_its_place(self, line):
        schema = json.dumps({**WORD_SCHEMA, "properties": {"word": False}})
        assert "/properties/word" in self.extract(line, line.write("bad.json", schema))

    def test_a_pattern_that_cannot_be_honoured_is_told_with_its_place(self, line):
        message = self.extract(line, line.write("bad.json", with_word(type="string", pattern=r"^(a)\1$")))
        assert message.startswith("bad.json: at /properties/word")
        assert "pattern" in message

    def test_a_module_that_does_not_exist(self, line):
        assert self.extract(line, "no_such_module_x:Model") == (
            "no_such_module_x:Model: there is no module no_such_module_x; run in the folder that holds it, "
            "or set PYTHONPATH"
        )

    def test_a_model_that_does_not_exist_names_those_that_do(self, line):
        line.write("shapes_b.py", "from pydantic import BaseModel\nclass Word(BaseModel):\n    word: str\n")
        assert self.extract(line, "shapes_b:Wrod") == "shapes_b:Wrod: shapes_b has no Wrod; its models: Word"

    def test_a_module_that_fails_is_told_with_the_line(self, line):
        line.write("shapes_c.py", "x = 1\ny = 1 / 0\n")
        message = self.extract(line, "shapes_c:Word")
        assert message.startswith("shapes_c:Word: importing shapes_c failed: ZeroDivisionError: division by zero (")
        assert message.endswith("shapes_c.py:2)")

    def test_a_module_that_needs_another_says_which(self, line):
        line.write("shapes_d.py", "import no_such_module_y\n")
        assert self.extract(line, "shapes_d:Word") == (
            "shapes_d:Word: importing shapes_d failed: No module named 'no_such_module_y'; install it"
        )

    def test_an_object_that_is_no_form(self, line):
        line.write("shapes_e.py", "Word = object()\n")
        assert self.extract(line, "shapes_e:Word").startswith("shapes_e:Word: ")


class TestDocuments:
    def test_an_empty_document(self, line):
        assert complaint(line.extract(line.write("a.txt", "\n"))) == (
            "a.txt: the document is empty; there is nothing to extract from"
        )

    def test_empty_standard_input(self, line):
        assert complaint(line.extract(input="")) == ("-: the document is empty; there is nothing to extract from")

    def test_a_document_that_is_not_utf_8(self, line):
        assert complaint(line.extract(line.write("a.txt", b"caf\xe9"))) == (
            "a.txt: not UTF-8 (byte 0xe9 at offset 3); convert it to UTF-8"
        )

    def test_a_missing_document(self, line):
        assert complaint(line.extract("gone.txt")) == "gone.txt: no such file; check the path"

    def test_a_folder(self, line):
        (line.folder / "notes").mkdir()
        assert complaint(line.extract("notes/")) == (
            "notes/: is a folder; name the files in it, for example notes/*.txt"
        )

    def test_json_lines_without_a_field_name_their_fields(self, line):
        name = line.write("in.jsonl", '{"id": 1, "body": "x"}\n')
        assert complaint(line.extract(name)) == (
            'in.jsonl: is JSON Lines; name the field that holds the text with --field (the first row has: "id", "body")'
        )

    def test_a_field_that_is_missing_everywhere(self, line):
        name = line.write("in.jsonl", '{"id": 1, "body": "x"}\n{"id": 2, "body": "y"}\n')
        assert complaint(line.extract("--field", "text", name)) == (
            'in.jsonl:1: no field "text" in this row; it has: "id", "body"'
        )

    def test_a_field_that_is_missing_in_one_line_is_that_row_s_error(self, line):
        name = line.write("in.jsonl", '{"text": "x"}\n{"body": "y"}\n')
        result = line.extract("--field", "text", name)
        assert result.exit_code == 1
        assert json.loads(result.stdout.splitlines()[1]) == {
            "document": "in.jsonl:2",
            "error": 'no field "text" in this row; it has: "body"',
        }

    def test_standard_input_twice(self, line):
        assert complaint(line.extract("-", "-", input="x")) == (
            "standard input (-) is named twice, but can be read once; name it once"
        )


class TestOutputAndModels:
    def test_an_output_in_a_missing_folder(self, line):
        name = line.write("a.txt", "A")
        assert complaint(line.extract(name, "-o", "gone/out.jsonl")) == (
            "gone/out.jsonl: the folder gone does not exist; make it first"
        )

    def test_an_output_that_is_a_folder(self, line):
        (line.folder / "out").mkdir()
        assert complaint(line.extract(line.write("a.txt", "A"), "-o", "out")) == (
            "out: cannot be written (Is a directory); choose another file"
        )

    def test_resume_without_output(self, line):
        assert complaint(line.extract(line.write("a.txt", "A"), "--resume")) == (
            "--resume needs --output FILE, the file to go on with"
        )

    def test_a_model_that_cannot_be_had(self, line, monkeypatch):
        def load_engine(model):
            raise ModelError(f"{model}: not in the cache, and there is no network; fetch it first")

        monkeypatch.setattr("fillengine.cli.extract.load_engine", load_engine)
        assert complaint(line.extract(line.write("a.txt", "A"), "--model", "m")) == (
            "m: not in the cache, and there is no network; fetch it first"
        )


class TestOptions:
    def test_an_unknown_command_is_corrected(self, line):
        assert complaint(line.run("extrat")) == "No such command 'extrat'. Did you mean 'extract'?; see --help"

    @pytest.mark.parametrize(
        "arguments", [["--max-tokens", "0"], ["--batch-size", "0"], ["--temperature", "-1"], ["--fill", "no"]]
    )
    def test_a_value_out_of_range_names_its_option(self, line, arguments):
        assert f"'{arguments[0]}'" in complaint(line.extract(line.write("a.txt", "A"), *arguments))

    def test_a_missing_schema(self, line):
        assert "--schema" in complaint(line.run("extract", "a.txt"))


class TestOwnFaults:
    def test_an_unexpected_error_is_one_line_with_a_way_to_see_more(self, line):
        line.engine.answer = lambda document: {}["x"]
        result = line.extract(line.write("a.txt", "A"))
        assert result.exit_code == 70
        assert result.stderr.startswith("fillengine: error: unexpected KeyError: 'x'; ")
        assert "FILLENGINE_DEBUG=1" in result.stderr
        assert result.stderr.count("\n") == 1

    def test_debug_shows_the_traceback(self, line, monkeypatch):
        monkeypatch.setenv("FILLENGINE_DEBUG", "1")
        assert isinstance(line.extract("gone.txt").exception, Exception)


@pytest.mark.parametrize(
    ("arguments", "code", "heavy"),
    [
        (["--help"], "0", ["mlx", "mlx_lm", "transformers", "torch", "numpy", "pydantic", "jsonschema", "jinja2"]),
        (["extract", "-s", "bad.json", "a.txt"], "2", ["mlx", "mlx_lm", "transformers", "torch"]),
    ],
)
def test_help_and_bad_schemas_load_nothing_heavy(tmp_path, arguments, code, heavy):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "a.txt").write_text("A")
    program = (
        "import sys\n"
        "from fillengine.cli.app import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit as stop: print(stop.code)\n"
        f"print([name for name in {heavy} if name in sys.modules])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == [code, "[]"]
