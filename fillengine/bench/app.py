"""`fillengine bench`: the commands. What they need is imported when they run."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fillengine.bench.measure import Plan

INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure this engine and its peers side by side. Peers need the extra: pip install 'fillengine[bench]'.",
)

Data = Annotated[
    Path,
    typer.Argument(
        metavar="RECORDS", help="Records with known answers: JSON Lines with id, kind, schema, document and truth."
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME|FOLDER", help="A known name (smollm2), a folder, or a hub name."),
]
RandomShape = Annotated[
    str | None,
    typer.Option(metavar="SHAPE", help="Random weights in a known shape (llama-8b, tiny), for speed only."),
]
Dtype = Annotated[
    str | None, typer.Option(metavar="TYPE", help="bfloat16, float16 or float32: activations and dense weights.")
]
Dense = Annotated[bool, typer.Option("--dense", help="Unpack quantized weights.")]
Quantize = Annotated[int | None, typer.Option(metavar="BITS", help="Quantize the weights, in groups of 64.")]
Ways = Annotated[str, typer.Option(metavar="NAMES", help="Ways of filling: off, assert, auto.")]
Groundings = Annotated[str, typer.Option("--grounding", metavar="NAMES", help="verbatim, free.")]
Peers = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="llguidance, llguidance-grounded, outlines: their masks in mlx-lm, token by token at batch size 1, "
        "in its batch generator at others.",
    ),
]
BatchSizes = Annotated[str, typer.Option(metavar="N,N", help="Texts at a time; one table for each.")]
Temperatures = Annotated[str, typer.Option(metavar="X,X", help="One table for each.")]
PerKind = Annotated[int | None, typer.Option(metavar="N", min=1, help="Records of each kind.", show_default="all")]
RecordsPerTurn = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Records before it is the next one's turn.", show_default="1, in batches 2 a row"
    ),
]
MaxTokens = Annotated[int, typer.Option(metavar="N", min=1, help="Token limit of an answer.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of the random numbers above temperature 0.")]
WarmUp = Annotated[int, typer.Option(metavar="N", min=0, help="Turns of each contender that do not count.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the figures there, as JSON, and the turns beside it."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the turns that are beside --output.")]
PartOf = Annotated[
    str | None,
    typer.Option("--part", metavar="K/N", help="Only the K-th of N parts of the records; `merge` puts them together."),
]
TokenizerModel = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME|FOLDER", help="Whose tokenizer: a known name or a folder.")
]
MaskPeers = Annotated[str, typer.Option("--peers", metavar="NAMES", help="llguidance, or nothing.")]
MaxSeconds = Annotated[float, typer.Option(metavar="S", min=0.001, help="Time limit for a schema.")]
FiguresOutput = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the figures there, as JSON.")
]


@app.command()
def generate(
    data: Data,
    *,
    model: Model = None,
    random_shape: RandomShape = None,
    dtype: Dtype = None,
    dense: Dense = False,
    quantize: Quantize = None,
    ways: Ways = "off,assert,auto",
    grounding: Groundings = "verbatim",
    peers: Peers = "",
    batch_sizes: BatchSizes = "1",
    temperatures: Temperatures = "0",
    per_kind: PerKind = None,
    records_per_turn: RecordsPerTurn = None,
    max_tokens: MaxTokens = 768,
    seed: Seed = 0,
    mispaired: Annotated[
        bool, typer.Option("--mispaired", help="Give each form the document of another kind: nothing to copy.")
    ] = False,
    write_truth: Annotated[
        bool,
        typer.Option(
            "--write-truth",
            help="Run every pass, mask and choice, then take the true answer's token: for random weights, which "
            "write nonsense.",
        ),
    ] = False,
    warm_up: WarmUp = 1,
    part: PartOf = None,
    output: Output = None,
    resume: Resume = False,
) -> None:
    """Tokens, forward passes, seconds and field accuracy over extraction records.

    The contenders take turns over the same records. Tokens are held against those of the first contender that
    writes the same form at the same temperature; where they differ, the two best candidates there are shown.
    """
    from fillengine.bench.measure import Plan
    from fillengine.bench.show import show_generate

    plan = Plan(
        data=data,
        choice=_choice(model, random_shape, dtype, dense=dense, quantize=quantize),
        ways=_names(ways),  # type: ignore[arg-type]  # checked there
        groundings=_names(grounding),  # type: ignore[arg-type]
        peers=_names(peers),
        batch_sizes=_numbers(batch_sizes, int, "--batch-sizes"),
        temperatures=_numbers(temperatures, float, "--temperatures"),
        per_kind=per_kind,
        records_per_turn=records_per_turn,
        max_tokens=max_tokens,
        seed=seed,
        is_mispaired=mispaired,
        writes_truth=write_truth,
        num_warm_up=warm_up,
    )
    _measure(plan, output, show_generate, part=part, resume=resume)


@app.command()
def extract(
    data: Data,
    *,
    model: Model = None,
    dtype: Dtype = None,
    dense: Dense = False,
    quantize: Quantize = None,
    ways: Ways = "off,assert,auto",
    peers: Peers = "llguidance",
    batch_sizes: BatchSizes = "1,8",
    per_kind: PerKind = 20,
    records_per_turn: RecordsPerTurn = None,
    max_tokens: MaxTokens = 768,
    warm_up: WarmUp = 1,
    part: PartOf = None,
    output: Output = None,
    resume: Resume = False,
) -> None:
    """Documents a second and field accuracy end to end, prompts included, against the peers."""
    from fillengine.bench.measure import Plan
    from fillengine.bench.show import show_extract

    plan = Plan(
        data=data,
        choice=_choice(model, None, dtype, dense=dense, quantize=quantize),
        ways=_names(ways),  # type: ignore[arg-type]  # checked there
        peers=_names(peers),
        batch_sizes=_numbers(batch_sizes, int, "--batch-sizes"),
        per_kind=per_kind,
        records_per_turn=records_per_turn,
        max_tokens=max_tokens,
        num_warm_up=warm_up,
        command="extract",
    )
    _measure(plan, output, show_extract, part=part, resume=resume)


@app.command()
def merge(
    data: Data,
    parts: Annotated[
        list[Path], typer.Argument(metavar="PART", help="What --part wrote to --output, the turns beside it.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write the figures there, as JSON.")],
) -> None:
    """One result from the parts of a measurement: ratios over the turns of all."""
    from rich.console import Console

    from fillengine.bench.merge import merge as merged
    from fillengine.bench.show import show_extract, show_generate

    content = merged(data, parts)
    show = show_extract if content["measurement"]["command"] == "extract" else show_generate
    show(Console(), content)
    write_json(output, content)


@app.command()
def masks(
    data: Annotated[
        Path,
        typer.Argument(metavar="SCHEMAS", help="Mask data of JSONSchemaBench: JSON Lines with name, schema, tests."),
    ],
    *,
    model: TokenizerModel = "smollm2",
    peers: MaskPeers = "llguidance",
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The first N schemas.", show_default="all")
    ] = None,
    seconds: MaxSeconds = 20.0,
    output: FiguresOutput = None,
) -> None:
    """Which schemas are honoured, and what their masks cost, engine beside engine."""
    from rich.console import Console

    from fillengine.bench.machine import machine
    from fillengine.bench.masks import figures, judge_all, read_cases
    from fillengine.bench.show import show_masks

    cases = read_cases(data, limit)
    engines, encode = _mask_engines(model, peers)
    judgements = []
    is_whole = True
    with Console(stderr=True).status("") as shown:
        try:
            for judgement in judge_all(
                engines,
                cases,
                encode,
                max_seconds=seconds,
                report=lambda done: shown.update(f"{done} of {len(cases)} schemas"),
            ):
                judgements.append(judgement)
        except KeyboardInterrupt:
            is_whole = False
    content = {
        "measurement": {"command": "masks", "data": data.name, "model": model, "limit": limit, "seconds": seconds},
        "machine": machine(),
        "is_whole": is_whole,
        "figures": figures(judgements, [engine.name for engine in engines]),
    }
    show_masks(Console(), content)
    if output is not None:
        write_json(output, content)
    if not is_whole:
        raise typer.Exit(INTERRUPTED)


@app.command("compile")
def compile_(
    *,
    model: TokenizerModel = "smollm2",
    peers: MaskPeers = "llguidance",
    repeat: Annotated[int, typer.Option(metavar="N", min=1, help="Times that each schema is compiled.")] = 5,
    seconds: MaxSeconds = 60.0,
    output: FiguresOutput = None,
) -> None:
    """Time to the first mask for schemas that are hard to compile."""
    from rich.console import Console

    from fillengine.bench.hard_schemas import measure
    from fillengine.bench.machine import machine
    from fillengine.bench.show import show_compile

    engines, encode = _mask_engines(model, peers)
    with Console(stderr=True).status("") as shown:
        rows = measure(engines, encode, repeat=repeat, max_seconds=seconds, report=shown.update)
    content = {
        "measurement": {"command": "compile", "model": model, "repeat": repeat, "seconds": seconds},
        "machine": machine(),
        "figures": rows,
    }
    show_compile(Console(), content)
    if output is not None:
        write_json(output, content)


@app.command()
def memory(
    data: Data,
    *,
    model: Model = None,
    random_shape: RandomShape = None,
    dtype: Dtype = None,
    dense: Dense = False,
    quantize: Quantize = None,
    ways: Ways = "auto",
    grounding: Groundings = "verbatim",
    peers: Peers = "",
    batch_sizes: BatchSizes = "1,8",
    per_kind: PerKind = 4,
    max_tokens: MaxTokens = 768,
    output: FiguresOutput = None,
) -> None:
    """The most memory that contenders take over extraction records: keys and values, masks, automata."""
    from rich.console import Console

    from fillengine.bench.measure import Plan, measure_memories
    from fillengine.bench.show import show_memory

    plan = Plan(
        data=data,
        choice=_choice(model, random_shape, dtype, dense=dense, quantize=quantize),
        ways=_names(ways),  # type: ignore[arg-type]  # checked there
        groundings=_names(grounding),  # type: ignore[arg-type]
        peers=_names(peers),
        batch_sizes=_numbers(batch_sizes, int, "--batch-sizes"),
        per_kind=per_kind,
        max_tokens=max_tokens,
        command="memory",
    )
    with Console(stderr=True).status("loading the model") as shown:
        content = measure_memories(
            plan, report=lambda setting, number: shown.update(f"{setting}, contender {number + 1}")
        )
    show_memory(Console(), content)
    if output is not None:
        write_json(output, content)


def _mask_engines(model: str, peers: str) -> tuple[Any, Any]:
    """The engines over a model's tokenizer, and how that encodes. The model's weights are not read."""
    from fillengine.bench.mask_engines import mask_engines
    from fillengine.bench.models import tokenizer_of
    from fillengine.fill.tokenizer import read_tokenizer

    wrapped = tokenizer_of(model)
    tokenizer = read_tokenizer(wrapped)
    engines = mask_engines(_names(peers), getattr(wrapped, "_tokenizer", wrapped), tokenizer)
    assert tokenizer.encoder is not None
    return engines, tokenizer.encoder.encode


def _measure(plan: Plan, output: Path | None, show: Any, *, part: str | None, resume: bool) -> None:
    from rich.console import Console

    from fillengine.bench.measure import measure
    from fillengine.bench.merge import turns_file
    from fillengine.bench.part import WHOLE, Part
    from fillengine.errors import FillError

    if resume and output is None:
        raise FillError("--resume needs --output FILE, the file to go on with")
    errors = Console(stderr=True)
    rows = None if output is None else turns_file(output)
    chosen = WHOLE if part is None else Part.of(part)
    status: AbstractContextManager[Any] = errors.status("loading the model")
    with status as shown:

        def report(setting: str, contender: str, done: int) -> None:
            shown.update(f"{setting}: {done} turns done, now {contender}")

        content = measure(plan, rows=rows, resume=resume, part=chosen, report=report)
    show(Console(), content)
    if output is not None:
        write_json(output, content)
    if not content["is_whole"]:
        kept = f"; the same command with --resume goes on ({rows})" if rows else ""
        errors.print(f"interrupted{kept}", highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED)


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _choice(
    model: str | None, random_shape: str | None, dtype: str | None, *, dense: bool, quantize: int | None
) -> Any:
    from fillengine.bench.models import DTYPES, Choice
    from fillengine.errors import ModelError

    if dtype is not None and dtype not in DTYPES:
        raise ModelError(f"there is no dtype {dtype}; there are {', '.join(DTYPES)}")
    return Choice(model, random_shape, dtype, dense=dense, quantize=quantize)  # type: ignore[arg-type]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str, kind: Any, option: str) -> tuple[Any, ...]:
    from fillengine.errors import FillError

    try:
        return tuple(kind(name) for name in _names(text))
    except ValueError:
        raise FillError(f"{option} is {text!r}; give numbers with commas between them, such as 1,8") from None
