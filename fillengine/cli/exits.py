"""Exit codes of the command line."""

from __future__ import annotations

DONE = 0
SOME_FAILED = 1
BAD_INPUT = 2
OWN_FAULT = 70
INTERRUPTED = 130
NOBODY_READS = 141
TERMINATED = 143

EXIT_CODES = {
    DONE: "done",
    SOME_FAILED: "done, but some of several documents failed; their rows say why",
    BAD_INPUT: "bad input: one line on standard error says what, where and what to do",
    OWN_FAULT: "a fault of fillengine itself",
    INTERRUPTED: "interrupted (Ctrl-C)",
    NOBODY_READS: "nobody reads the output any more",
    TERMINATED: "terminated (SIGTERM)",
}
