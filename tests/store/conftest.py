from uuid import uuid4

import pytest


@pytest.fixture(params=["directory", "memory", "s3"])
def place(request, tmp_path):
    """A path or a URL where there is nothing yet."""
    if request.param == "directory":
        return str(tmp_path / "a" / "folder")
    if request.param == "memory":
        return f"memory://{uuid4().hex}/folder"
    return f"{request.getfixturevalue('s3')}/folder"
