"""What `import fillengine` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fillengine


@pytest.mark.parametrize("name", fillengine.__all__)
def test_every_name_that_is_promised_is_there(name: str) -> None:
    assert getattr(fillengine, name) is not None
    assert name in dir(fillengine)


def test_a_name_that_is_not_promised_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fillengine.nothing


def test_compiling_a_form_does_not_load_mlx() -> None:
    code = "import sys, fillengine; fillengine.compile({'type': 'string'}); sys.exit('mlx.core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
