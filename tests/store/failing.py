"""A store in memory that is away, or loses its answers, as long as a test says so."""

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class FailingFileSystem(MemoryFileSystem):
    """Answers nothing while `away`; does what is asked and fails while it `loses_answers`."""

    protocol = "failing"
    store = {}  # noqa: RUF012 - of the class, as that of its base
    pseudo_dirs = [""]  # noqa: RUF012
    away = loses_answers = False

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("failing://", "memory://", 1))

    def pipe_file(self, path, *args, **kwargs):
        self.answer()
        super().pipe_file(path, *args, **kwargs)
        if FailingFileSystem.loses_answers:
            raise ConnectionError("the answer was lost")

    def find(self, path, *args, **kwargs):
        self.answer()
        return super().find(path, *args, **kwargs)

    def answer(self):
        if FailingFileSystem.away:
            raise ConnectionError("nobody answers")


fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
