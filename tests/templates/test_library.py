"""The grammars that are shipped: real texts, texts that are wrong, and random ones before readers of each format."""

from __future__ import annotations

import ast
import configparser
import csv
import datetime
import io
import json
import re
import sqlite3
from collections.abc import Callable
from email.headerregistry import Address
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from text_walks import machine_of, random_text

import fillengine as fe
from fillengine.automata.machine import Machine
from fillengine.templates.library import grammars_folder, shipped


@cache
def machine(name: str) -> Machine:
    return machine_of(fe.Grammar.named(name))


RIGHT: dict[str, list[str]] = {
    "arithmetic": [
        "1 + 2*3",
        "-(x1^2 - 4*a*c)/(2*a)",
        "sqrt(2) * max(a, b, 0.5e-3) % 7",
        "now()",
        "((((1))))",
        "2^-3",
    ],
    "chess-san": [
        "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7",
        "1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0",
        "24... Rad8 25. Qe3 h6 1/2-1/2",
        "8. exd5 Nxd5 9. Nxe5 Nxe5 10. Rxe5 c6",
        "55. bxa8=Q+ Kc7 56. Qa7+",
        "R1e2",
        "Qh4e1!?",
        "O-O-O+",
        "1. d4",
        "1. d4 *",
    ],
    "conventional-commit": [
        "feat(lang): add Polish language",
        "docs: correct spelling of CHANGELOG",
        "feat!: send an email to the customer when a product is shipped",
        "fix: prevent racing of requests\n\nIntroduce a request id and a reference to latest request. Dismiss\n"
        "incoming responses other than from latest request.\n\nReviewed-by: Z\nRefs: #123\n",
        "chore!: drop support for Node 6\n\nBREAKING CHANGE: use JavaScript features not available in Node 6.",
    ],
    "cron": [
        "*/15 8-18 * * MON-FRI",
        "0 0 1,15 * *",
        "5 4 * * SUN",
        "0 22 * * 1-5",
        "23 0-23/2 * * *",
        "0 0 29 FEB 7",
        "@daily",
    ],
    "csv": [
        "aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n",
        "field_name,field_name,field_name\r\naaa,bbb,ccc\r\nzzz,yyy,xxx",
        '"aaa","b \r\nbb","ccc"\r\nzzz,yyy,xxx',
        '"aaa","b""bb","ccc"',
        'Year,Make,Model,Price\n1997,Ford,E350,3000.00\n1999,Chevy,"Venture ""Extended Edition""",4900.00\n',
        "a,,\n,,b\n",
        "Größe,мера,長さ\n1,2,3",
        ",",
        '""',
    ],
    "email-addresses": [
        "ann@example.com",
        '"Ann Lee" <ann.lee+news@mail.example.co.uk>, bob@b.example',
        "Pete <pete@silly.example>, Jørgen Ærø <j@example.dk>",
        '"Joe Q. Public" <john.q.public@example.com>',
        '"very.(),:;<>[]\\".VERY"@strange.example.com',
    ],
    "ini": [
        "[Simple Values]\nkey=value\nspaces in keys=allowed\nyou can also use : to delimit keys from values\n",
        "[DEFAULT]\nServerAliveInterval = 45\nCompression = yes\n\n[forge.example]\nUser = hg\n",
        "; a file\n\n[mysqld]\ndatadir=/var/lib/mysql\n# a comment\nsql_mode=\n",
        "[a]\r\nb=1\r\n",
        "[only]",
    ],
    "iso-8601": [
        "2024-02-29T12:30:00Z",
        "2023-10-05",
        "1999-12-31T23:59:59.999+05:30",
        "2024-W09-4",
        "2024-366",
        "2023-365T07",
        "12:30",
        "23:15:30,5-03",
        "2000-02-29",
    ],
    "json": [
        '{"a": [1, -2.5e+10, true, null], "b\\u00e9\\n": {}}',
        "\n [ ] ",
        '"\U0001f600 \x7f\\/"',
        "0",
        '{\n  "x": {\n    "y": []\n  }\n}\n',
        '[[[[["deep"]]]], {"": ""}]',
    ],
    "markdown-table": [
        "| Name | Qty |\n|------|----:|\n| Nut  | 12  |\n| Bolt | 7   |\n",
        "|a|\n|-|",
        "| | b |\n|:-:|---|\n| a \\| b | `x` |",
        "| one | two | three |\n| --- | :--- | ---: |\n| ä | 長い | |\n",
    ],
    "semver": [
        "0.0.4",
        "1.2.3",
        "10.20.30",
        "1.1.2-prerelease+meta",
        "1.0.0-alpha.1",
        "1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay",
        "1.0.0-rc.1+build.1",
        "2.0.0+build.1848",
        "1.0.0-0A.is.legal",
        "99999999999999999999999.999999999999999999.99999999999999999",
        "1.0.0-alpha0.valid",
        "1.2.3----RC-SNAPSHOT.12.9.1--.12+788",
    ],
    "sql-select": [
        "SELECT * FROM users",
        "SELECT u.name, COUNT(*) AS orders FROM users AS u LEFT JOIN orders AS o ON o.user_id = u.id "
        "WHERE u.active = TRUE AND (u.age >= 18 OR u.country IN ('DE', 'FR')) GROUP BY u.name "
        "HAVING COUNT(*) > 3 ORDER BY orders DESC, u.name LIMIT 10 OFFSET 20;",
        "SELECT DISTINCT city FROM shops WHERE name LIKE 'O''Neil%' AND closed IS NOT NULL",
        "SELECT price * (1 - discount) AS net FROM items WHERE id NOT IN (SELECT item_id FROM returns)",
        'SELECT a.* FROM a JOIN b ON a.id = b.id WHERE NOT EXISTS (SELECT 1 FROM "c d" WHERE x BETWEEN 1 AND -2.5)',
    ],
}

WRONG: dict[str, list[str]] = {
    "arithmetic": ["", "1 +", "(1", "1)", "a b", "*2", "max(,)", "1..2", "2 ** 3"],
    "chess-san": ["e9", "1. e4 e5 2.", "Nf", "e8", "e4=Q", "0-0", "1.e4", "Kxx4", "1. e4 2. d4", "dxe", "Px4", "0. e4"],
    "conventional-commit": ["added a thing", "feat add", "feat(): x", "feat:x", "feat: x\nbody", "Feat: x", "feat: x "],
    "cron": ["* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "@never"],
    "csv": ["", 'a"b,c', '"a', '"a" ,b', "a\n\nb", '"a"b', "a\x00b"],
    "email-addresses": ["", "ann", "ann@", "@b.example", "a@b", "a..b@c.example", "Ann ann@b.example", "a@-b.example"],
    "ini": ["", "key=value", "[a\nb=1", "[]\n", "[a]\nnovalue", "[a]\n=1", "[ a ]", "[a]\nb=1 "],
    "iso-8601": [
        "",
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-04-31",
        "24:00",
        "2024-W53-1",
        "2023-366",
        "2024-02-29 12:00",
        "2024-2-9",
        "12:60",
        "2024-02-29T",
        "0000-01-01",
    ],
    "json": ["", "{a: 1}", "[1,]", "01", "+1", "1.", ".5", "'a'", '"\t"', '"\\x"', "nul", '{"a"}', "[1] 2", "NaN"],
    "markdown-table": ["", "| a |", "| a | b |\n|---|", "| a |\n|---|\n| b | c |", "a | b\n---|---", "| a |\n| b |"],
    "semver": ["1", "1.2", "1.2.3-", "1.2.3-01", "01.1.1", "1.2.3+", "v1.2.3", "1.2.3-a..b", "1.2.3+a+b", "1.2.3.4"],
    "sql-select": [
        "",
        "SELECT FROM users",
        "SELECT * FROM",
        "select * from users",
        "SELECT * FROM users WHERE",
        "SELECT * FROM users GROUP name",
        "DELETE FROM users",
        "SELECT 'it's' FROM t",
        "SELECT a.* + 1 FROM a",
        "SELECT * FROM users; SELECT * FROM users",
    ],
}  # fmt: skip


def test_every_grammar_says_in_a_line_what_it_is() -> None:
    assert sorted(RIGHT) == sorted(WRONG) == list(shipped())
    for grammar in shipped().values():
        assert grammar.text.startswith("# ")
        assert 20 < len(grammar.summary) <= 110


def test_the_wheel_carries_the_folder_that_is_looked_into() -> None:
    project = Path(fe.__file__).parents[1]
    assert grammars_folder() in (project / "grammars", project / "fillengine" / "_grammars")
    assert 'grammars = "fillengine/_grammars"' in (project / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in RIGHT for text in RIGHT[name]])
def test_real_texts_are_accepted(name: str, text: str) -> None:
    assert machine(name).accepts(text.encode())


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in WRONG for text in WRONG[name]])
def test_wrong_texts_are_not(name: str, text: str) -> None:
    assert not machine(name).accepts(text.encode())


# --- Readers of the formats --------------------------------------------------------------------------------------

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)
"""As semver.org gives it."""


def _reads_arithmetic(text: str) -> None:
    # Python has keywords.
    names = re.sub(r"(?<![0-9A-Za-z_.])[A-Za-z_]\w*", r"\g<0>_", text)
    ast.parse(names.replace("^", "**"), mode="eval")


def _reads_csv(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert rows
    assert all(rows)


def _reads_addresses(text: str) -> None:
    for mailbox in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^,"])+', text):
        spec = re.search(r'((?:"(?:[^"\\]|\\.)*"|[^\s<>"])+@[^\s<>]+)>?$', mailbox.strip())
        assert spec is not None, mailbox
        if spec[1].isascii():
            Address(addr_spec=spec[1])


def _reads_ini(text: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(text)
    assert parser.sections() or "[DEFAULT]" in text


def _reads_iso(text: str) -> None:
    if "W" in text or re.match(r"\d{4}-\d{3}(T|$)", text):
        datetime.date.fromisoformat(text[:10]) if "W" in text else datetime.datetime.strptime(text[:8], "%Y-%j")
        text = f"2024-01-01{text[10:] if 'W' in text else text[8:]}"
    clock = text.partition("T")[2] if re.match(r"\d{4}-", text) else text
    if clock and ":" in clock[:3] and not re.search(r"^\d\d:\d\d[.,]", clock):
        datetime.time.fromisoformat(re.sub(r"([.,]\d{6})\d+", r"\1", clock))
    if re.match(r"\d{4}-", text):
        datetime.date.fromisoformat(text.partition("T")[0])


def _reads_markdown(text: str) -> None:
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.startswith("<table>")
    assert html.count("<table>") == 1
    assert html.rstrip().endswith("</table>")


def _reads_sql(text: str) -> None:
    # It has no tables, so that every statement that can be parsed ends in a complaint about something else.
    with pytest.raises(
        sqlite3.OperationalError, match=r"no such table|no such function|wrong number of arguments|DISTINCT"
    ):
        sqlite3.connect(":memory:").execute(text)


READERS: dict[str, Callable[[str], object]] = {
    "arithmetic": _reads_arithmetic,
    "csv": _reads_csv,
    "email-addresses": _reads_addresses,
    "ini": _reads_ini,
    "iso-8601": _reads_iso,
    "json": json.loads,
    "markdown-table": _reads_markdown,
    "semver": lambda text: _SEMVER.fullmatch(text) or pytest.fail(text),
    "sql-select": _reads_sql,
}


@pytest.mark.parametrize("name", sorted(READERS))
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_readers_of_the_format_read_whatever_a_grammar_writes(name: str, seed: int) -> None:
    READERS[name](random_text(machine(name), seed))


def test_json_is_read_as_the_standard_library_reads_it(shared: Path) -> None:
    for file in sorted((shared / "data/json-schema-test-suite").rglob("*.json"))[:40]:
        assert machine("json").accepts(file.read_bytes()), file.name
