"""The examples of the guide to managing run as they stand; the second asks over OpenWire."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from entrepot import Broker
from guides import blocks

EXAMPLES = [block.text for block in blocks("docs/managing.md", "python")]
PRINTED = ["0 ['archive', 'orders']\n", "True 0\n0\n"]


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int) -> None:
    async def main() -> tuple[bytes, bytes]:
        async with Broker(listen=["auto://127.0.0.1:0"]) as broker:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                EXAMPLES[number],
                env={**os.environ, "ENTREPOT_URL": broker.uri("openwire").replace("openwire", "tcp", 1)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            async with asyncio.timeout(60):
                return await process.communicate()

    said, told = asyncio.run(main())
    assert (said.decode(), told.decode()) == (PRINTED[number], "")
