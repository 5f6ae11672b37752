"""The blocks of the README run as printed, and type checkers take and refuse what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PIXEL, Service

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs_and_is_typed(block: str, service: Service, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(PIXEL)
    (tmp_path / "block.py").write_text(block)
    # Files of the public internet are not there in tests.
    service.model("color-extraction", then="succeed", output={"output": "#102030"})
    environment = {**os.environ, "INFERSTORE_BASE_URL": service.base_url, "INFERSTORE_API_KEY": service.api_key}
    python = sys.executable
    checks = [[python, "-m", "mypy", "--strict", "block.py"], ["pyright", "--pythonpath", python, "block.py"]]
    for command in ([python, "block.py"], *checks):
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_package_itself_has_no_error_of_pyright() -> None:
    command = ["pyright", "--pythonpath", sys.executable, "src"]
    ran = subprocess.run(command, cwd=README.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


GOOD = [
    'client.run("color-harmonization", {"input_image": Path("a"), "template": "v_shape", "angle": 30})',
    'client.run("color-harmonization", {"input_image": File(b"", "a"), "template": "v_shape", "angle": "30"}, deadline=3)',
    'client.create_once("face-detection", {"input": "u", "model": MODEL, "confidence": 0.5}, key="k")',
    'client.run(ModelId("my-model"), {"anything": 1}, max_cost="1")',
    'client.run("color-extraction", {"input": "u"}).output["output"].upper()',
    'client.download(client.upload(Path("a"), "samples", deadline=3).download_url, "b", overwrite=True).exists()',
    'client.create_key("laptop", daily_limit="5").key.upper()',
]
BAD = [
    'client.run("color-harmonization", {"input_image": Path("a"), "template": "v_shape", "angel": 30})',
    'client.run("color-harmonization", {"input_image": Path("a"), "template": "v_shape"})',
    'client.run("color-harmonization", {"input_image": Path("a"), "template": "v_shpe", "angle": 30})',
    'client.run("color-harmonization", {"input_image": Path("a"), "template": "v_shape", "angle": 30.5})',
    'client.run("color-harmonization", {"input_image": 3, "template": "v_shape", "angle": 30})',
    'client.run("colour-harmonization", {"input_image": Path("a"), "template": "v_shape", "angle": 30})',
    'client.run("color-extraction", {"input": "u"}, max_cost=0.1)',
    'client.run("color-extraction", {"input": "u"}, deadlin=3)',
    'client.run("color-extraction", {"input": "u"}).output["outptu"]',
    'client.upload(Path("a"), "smaples")',
    'client.upload(Path("a"), deadlin=3)',
    'client.download("u")',
    'client.save("u", "b")',
    'client.wait("t").outptu',
]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_inputs_that_the_document_forbids_are_errors_of_the_type_checker(checker: str, tmp_path: Path) -> None:
    head = [
        "from pathlib import Path",
        "from inferstore import Client, File, ModelId",
        "client = Client()",
        'MODEL: "Literal[\'Short-range model (best for faces within 2 meters)\']" = "Short-range model (best for faces within 2 meters)"',
        "from typing import Literal",
    ]
    lines = [*head, *GOOD, *BAD]
    (tmp_path / "uses.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy"] if checker == "mypy" else ["pyright", "--pythonpath", sys.executable]
    ran = subprocess.run([*command, "uses.py"], cwd=tmp_path, capture_output=True, text=True)
    found = {int(line) for line in re.findall(r"uses\.py:(\d+)(?::\d+)?:? -? ?error", ran.stdout)}
    first = len(head) + len(GOOD) + 1
    assert found == set(range(first, first + len(BAD))), ran.stdout + ran.stderr
