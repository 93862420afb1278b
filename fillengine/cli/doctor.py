"""`fillengine doctor`: what is in use here, and what would make it faster."""

from __future__ import annotations

from typing import Annotated

import typer

from fillengine.cli.render import say, waiting


def doctor(
    *,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="First find the BLAS and the threads that suit this machine (about a minute)."),
    ] = False,
) -> None:
    """Say which device, BLAS, MLX and model cache are in use, and what would make it faster."""
    from fillengine.generation.doctor import examine

    if measure:
        from fillengine.generation.blas_measure import measure as measure_blas

        with waiting("measuring"):
            found = measure_blas()
        threads = f"all {found['cores']} cores from {found['threads_from']} rows on"
        say(f"measured: {found['name']} is fastest here, {threads}; it is used from the next command on")
    findings = examine()
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        typer.echo(f"{finding.name:<{width}}  {finding.value}")
        if finding.advice:
            typer.echo(f"{'':<{width}}  -> {finding.advice}")
