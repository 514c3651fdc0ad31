"""A server of the S3 interface, which is a process of its own and speaks HTTP.

Tests that need it are left out where moto's server or s3fs is not installed.
"""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import fsspec
import pytest

from tests.processes import free_port, wait_until

KEYS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    for package in ("moto.server", "s3fs"):
        pytest.importorskip(package)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path_factory.mktemp("s3") / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | KEYS)
        try:
            assert wait_until(lambda: answers(address)), f"nobody answers at {address}"
            yield address
        finally:
            server.terminate()
            server.wait(30)


def answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(f"{address}/moto-api", timeout=5).close()
        return True
    return False


@pytest.fixture(scope="session")
def s3_keys(s3_server: str) -> Iterator[dict[str, str]]:
    """The environment by which a process reaches the server; this one has it, too."""
    keys = KEYS | {"AWS_ENDPOINT_URL": s3_server, "AWS_MAX_ATTEMPTS": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in keys.items():
            patch.setenv(key, value)
        yield keys


@pytest.fixture
def s3(s3_keys: dict[str, str]) -> str:
    """The URL of a new bucket."""
    bucket = f"bucket-{uuid4().hex}"
    fsspec.filesystem("s3").mkdir(bucket)
    return f"s3://{bucket}"


def require_keys(address: str, after: int) -> None:
    """Let the server ask for known keys after so many requests."""
    request = urllib.request.Request(
        f"{address}/moto-api/reset-auth",
        data=str(after).encode(),
        headers={"Content-Type": "text/plain"},
    )
    urllib.request.urlopen(request, timeout=10).close()
