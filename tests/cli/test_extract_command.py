"""`fillengine extract` with a fake engine: rows, order, flushing, resume, interruption, exit codes."""

from __future__ import annotations

import json
import os
import signal

import pytest

from fillengine.errors import ContextExceeded


def rows(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


class TestRows:
    def test_one_text_file_gives_one_row_on_standard_output(self, line):
        result = line.extract(line.write("a.txt", "Alpha beta"))
        assert result.exit_code == 0
        assert result.stdout == '{"document": "a.txt", "value": {"word": "Alpha"}}\n'
        assert result.stderr == ""

    def test_rows_come_in_the_order_of_the_documents(self, line):
        names = [line.write(f"{name}.txt", name.upper()) for name in "cab"]
        found = rows(line.extract(*names).stdout)
        assert [(row["document"], row["value"]["word"]) for row in found] == [
            ("c.txt", "C"),
            ("a.txt", "A"),
            ("b.txt", "B"),
        ]

    @pytest.mark.parametrize("arguments", [[], ["-"]])
    def test_standard_input_is_one_text(self, line, arguments):
        result = line.extract(*arguments, input="piped text")
        assert rows(result.stdout) == [{"document": "-", "value": {"word": "piped"}}]

    def test_json_lines_give_a_row_for_each_line(self, line):
        name = line.write("in.jsonl", '{"t": "A"}\n\n{"t": "B"}\n')
        found = rows(line.extract("--field", "t", name).stdout)
        assert [row["document"] for row in found] == ["in.jsonl:1", "in.jsonl:3"]

    def test_json_lines_come_from_standard_input_too(self, line):
        found = rows(line.extract("--field", "t", input='{"t": "A"}\n{"t": "B"}\n').stdout)
        assert [row["document"] for row in found] == ["-:1", "-:2"]

    def test_values_that_are_not_ascii_are_written_as_utf_8(self, line):
        result = line.extract(line.write("a.txt", "Größe"))
        assert result.stdout_bytes == '{"document": "a.txt", "value": {"word": "Größe"}}\n'.encode()

    def test_a_page_explains_the_answers(self, line):
        names = [line.write(f"{name}.txt", name.upper()) for name in "ab"]
        assert line.extract(*names, "--explain", "page.html").exit_code == 0
        page = line.read("page.html")
        assert [name in page for name in names] == [True, True]
        assert "3 forward passes" in page

    def test_a_page_that_cannot_be_written_is_said_before_the_run(self, line):
        result = line.extract(line.write("a.txt", "A"), "--explain", "no/page.html")
        assert result.exit_code == 2
        assert "no/page.html: cannot be written" in result.stderr
        assert line.engine.requests == []

    def test_output_goes_to_the_file_and_standard_output_stays_empty(self, line):
        result = line.extract(line.write("a.txt", "A"), "--output", "out.jsonl")
        assert (result.exit_code, result.stdout) == (0, "")
        assert rows(line.read("out.jsonl")) == [{"document": "a.txt", "value": {"word": "A"}}]

    def test_each_row_is_in_the_file_before_the_next_document_is_begun(self, line):
        seen = []

        def answer(document):
            seen.append(line.read("out.jsonl").count("\n"))
            return '{"word": "x"}'

        line.engine.answer = answer
        line.extract(*(line.write(f"{name}.txt", name) for name in "abc"), "-o", "out.jsonl")
        assert seen == [0, 1, 2]

    def test_a_pydantic_model_is_a_schema(self, line):
        line.write("shapes_a.py", "from pydantic import BaseModel\nclass Word(BaseModel):\n    word: str\n")
        result = line.run("extract", "--schema", "shapes_a:Word", line.write("a.txt", "A"))
        assert rows(result.stdout) == [{"document": "a.txt", "value": {"word": "A"}}]

    def test_options_reach_the_engine(self, line):
        line.extract(
            line.write("a.txt", "A"),
            *("--fill", "off", "--max-tokens", "99", "--seed", "5", "--temperature", "0.5"),
            *("--instructions", "Only the first one."),
        )
        (request,) = line.engine.requests
        options = request.options
        assert (options["fill"], options["max_tokens"], options["seed"]) == ("off", 99, 5)
        assert options["temperature"] == 0.5
        assert "Only the first one." in line.engine.prompts[0][0]["content"]

    def test_statistics_are_a_table_on_standard_error(self, line):
        names = [line.write(f"{name}.txt", name) for name in "ab"]
        result = line.extract(*names, "--stats")
        assert result.stdout.count("\n") == 2
        table = [tuple(row.split(maxsplit=1)) for row in result.stderr.splitlines()]
        assert ("documents", "2") in table
        assert ("asserted", "8") in table
        assert ("accepted", "2 (50% of 4 proposed)") in table
        assert ("forward", "passes  6 (0.43 a token)") in table
        assert ("prompt", "tokens   20 (12 reused)") in table
        assert ("prompts", "0.50 s") in table
        assert ("decoding", "1.00 s, summed over documents that overlap") in table


class TestFailures:
    def test_a_bad_document_among_several_becomes_an_error_row_and_the_others_go_on(self, line):
        names = [line.write("a.txt", "A"), line.write("b.txt", b"\xff"), line.write("c.txt", "C")]
        result = line.extract(*names)
        assert result.exit_code == 1
        assert rows(result.stdout) == [
            {"document": "a.txt", "value": {"word": "A"}},
            {"document": "b.txt", "error": "not UTF-8 (byte 0xff at offset 0); convert it to UTF-8"},
            {"document": "c.txt", "value": {"word": "C"}},
        ]
        assert result.stderr == (
            "fillengine: 1 of 3 documents failed, their rows say why; the first is b.txt: "
            "not UTF-8 (byte 0xff at offset 0); convert it to UTF-8\n"
        )

    def test_a_document_that_the_engine_refuses_becomes_an_error_row(self, line):
        def answer(document):
            if document == "B":
                raise ContextExceeded("9000 tokens of prompt; shorten the document")
            return '{"word": "x"}'

        line.engine.answer = answer
        result = line.extract(*(line.write(f"{name}.txt", name.upper()) for name in "abc"))
        assert result.exit_code == 1
        assert rows(result.stdout)[1] == {
            "document": "b.txt",
            "error": "9000 tokens of prompt; shorten the document",
        }

    def test_a_missing_file_among_several_is_a_row_too(self, line):
        result = line.extract(line.write("a.txt", "A"), "gone.txt")
        assert result.exit_code == 1
        assert rows(result.stdout)[1] == {"document": "gone.txt", "error": "no such file; check the path"}

    def test_the_only_document_s_fault_is_the_command_s_fault(self, line):
        def answer(document):
            raise ContextExceeded("9000 tokens of prompt; shorten the document")

        line.engine.answer = answer
        result = line.extract(line.write("a.txt", "A"))
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr == "fillengine: error: a.txt: 9000 tokens of prompt; shorten the document\n"


class TestResume:
    def names(self, line):
        return [line.write(f"{name}.txt", name.upper()) for name in "abc"]

    def test_kept_rows_are_not_computed_again(self, line):
        names = self.names(line)
        line.write("out.jsonl", '{"document": "a.txt", "value": {"word": "kept"}}\n{"docu')
        result = line.extract(*names, "-o", "out.jsonl", "--resume")
        assert result.exit_code == 0
        assert [row["value"]["word"] for row in rows(line.read("out.jsonl"))] == ["kept", "B", "C"]
        assert [request.document for request in line.engine.requests] == ["B", "C"]

    def test_a_finished_run_is_left_as_it_is(self, line):
        names = self.names(line)
        line.extract(*names, "-o", "out.jsonl")
        before = line.read("out.jsonl")
        line.engine.requests.clear()
        assert line.extract(*names, "-o", "out.jsonl", "--resume").exit_code == 0
        assert line.read("out.jsonl") == before
        assert line.engine.requests == []

    def test_rows_of_other_documents_are_refused(self, line):
        names = self.names(line)
        line.write("out.jsonl", '{"document": "x.txt", "value": {}}\n')
        result = line.extract(*names, "-o", "out.jsonl", "--resume")
        assert result.exit_code == 2
        assert result.stderr == (
            "fillengine: error: out.jsonl:1: this row is of x.txt, but document 1 is a.txt; resume with the "
            "documents of the first run in the same order, or write to another file\n"
        )

    def test_json_lines_are_taken_up_at_the_right_line(self, line):
        name = line.write("in.jsonl", '{"t": "A"}\n{"t": "B"}\n{"t": "C"}\n')
        line.write("out.jsonl", '{"document": "in.jsonl:1", "value": {}}\n')
        line.extract("--field", "t", name, "-o", "out.jsonl", "--resume")
        assert [row["document"] for row in rows(line.read("out.jsonl"))] == [
            "in.jsonl:1",
            "in.jsonl:2",
            "in.jsonl:3",
        ]

    def test_without_resume_a_file_with_rows_is_not_touched(self, line):
        line.write("out.jsonl", "precious\n")
        result = line.extract(*self.names(line), "-o", "out.jsonl")
        assert result.exit_code == 2
        assert result.stderr == (
            "fillengine: error: out.jsonl: exists and is not empty; go on with it by --resume, "
            "or remove it to start again\n"
        )
        assert line.read("out.jsonl") == "precious\n"


class TestInterruption:
    @pytest.mark.parametrize(
        ("number", "code", "word"),
        [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
    )
    def test_a_signal_ends_the_run_with_whole_rows_and_says_how_to_go_on(self, line, number, code, word):
        names = [line.write(f"{name}.txt", name.upper()) for name in "abc"]

        def answer(document):
            if document == "B":
                os.kill(os.getpid(), number)
            return json.dumps({"word": document})

        line.engine.answer = answer
        before = signal.getsignal(signal.SIGTERM)
        result = line.extract(*names, "-o", "out.jsonl")
        assert result.exit_code == code
        assert signal.getsignal(signal.SIGTERM) is before
        assert result.stderr == (
            f"fillengine: {word}: 1 of 3 rows are safe in out.jsonl; "
            "the same command with --resume goes on from there\n"
        )
        assert rows(line.read("out.jsonl")) == [{"document": "a.txt", "value": {"word": "A"}}]
        line.engine.answer = lambda document: json.dumps({"word": document})
        assert line.extract(*names, "-o", "out.jsonl", "--resume").exit_code == 0
        assert [row["value"]["word"] for row in rows(line.read("out.jsonl"))] == ["A", "B", "C"]

    def test_without_a_file_it_says_how_to_make_a_run_resumable(self, line):
        def answer(document):
            raise KeyboardInterrupt

        line.engine.answer = answer
        result = line.extract(line.write("a.txt", "A"))
        assert result.exit_code == 130
        assert result.stderr == (
            "fillengine: interrupted: 0 of 1 rows were written; with --output FILE a run can be resumed\n"
        )
