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

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.count()
        super().pipe_file(path, value, mode, **kwargs)
        if FailingFileSystem.loses_answers:
            raise ConnectionError("the answer was lost")

    def rm_file(self, path):
        self.count()
        super().rm_file(path)

    def info(self, path, **kwargs):
        self.answer()
        return super().info(path, **kwargs)

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        self.answer()
        return super().find(path, maxdepth, withdirs, detail, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        self.answer()
        return super().cat_file(path, start, end, **kwargs)

    def count(self):
        self.answer()
        if FailingFileSystem.left is not None:
            FailingFileSystem.left -= 1

    def answer(self):
        if FailingFileSystem.left == 0:
            raise ConnectionError("nobody answers")


fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
