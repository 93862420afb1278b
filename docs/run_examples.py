"""Run the examples of a page and write what they print behind them: `python docs/run_examples.py docs/forms.md`.

An example is a block of Python; the block behind it, without a language, is what it prints. The examples of a page
run one after another in one namespace. A test holds the pages to what their examples print.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

_EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def run(page: str) -> str:
    """The page with what its examples print now."""
    namespace: dict[str, object] = {"__name__": "__main__"}

    def example(match: re.Match[str]) -> str:
        printed = io.StringIO()
        line = page.count("\n", 0, match.start()) + 1
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + match["code"], "<example>", "exec", dont_inherit=True), namespace)
        shown = f"\n```\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{match['code']}```\n{shown}"

    return _EXAMPLE.sub(example, page)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(run(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
