"""A store in memory that stops working, as a store does for a process that dies or is cut off."""

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FailingFileSystem(MemoryFileSystem):
    """Takes so many changes, then answers nothing until `left` is set again."""

    protocol = "failing"
    store = {}  # noqa: RUF012 - of the class, as that of its base
    pseudo_dirs = [""]  # noqa: RUF012
    left = None
    loses_answers = False

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("failing://", "memory://", 1))

    def pipe_file(self, path, *args, **kwargs):
        self.answer(changes=1)
        super().pipe_file(path, *args, **kwargs)
        if FailingFileSystem.loses_answers:
            raise ConnectionError("the answer was lost")

    def rm_file(self, path):
        self.answer(changes=1)
        super().rm_file(path)

    def info(self, path, **kwargs):
        self.answer()
        return super().info(path, **kwargs)

    def find(self, path, *args, **kwargs):
        self.answer()
        return super().find(path, *args, **kwargs)

    def answer(self, changes=0):
        if FailingFileSystem.left == 0:
            raise ConnectionError("nobody answers")
        if FailingFileSystem.left is not None:
            FailingFileSystem.left -= changes


fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
