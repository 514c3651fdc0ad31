import numpy as np
import pytest

from sparsegp.checkpoint import Generations
from sparsegp.errors import StoreError


def test_full_disk_keeps_what_there_is_and_recovers(small_disk, steps):
    generations = Generations(small_disk.path / "run", keep_last=3)
    meta, arrays = steps.content(40)
    generations.save(40, meta, arrays)
    with pytest.raises(StoreError, match=r"cannot write .*00000080: No space left on device"):
        generations.save(80, {}, {"x": np.ones(10**6)})
    assert [item.name for item in (small_disk.path / "run").iterdir()] == ["00000040"]
    filler = small_disk.path / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(2**22))
    for _ in range(3):
        with pytest.raises(StoreError, match="No space left on device"):
            generations.save(80, *steps.content(80))
    steps.check(*generations.load())
    filler.unlink()
    generations.save(80, *steps.content(80))
    step, bundle = generations.load()
    assert step == 80
    steps.check(step, bundle)


def test_read_only_file_system(small_disk, steps):
    generations = Generations(small_disk.path, keep_last=1)
    generations.save(40, *steps.content(40))
    assert small_disk.make_read_only()
    with pytest.raises(StoreError, match="Read-only file system"):
        generations.save(80, *steps.content(80))
    step, bundle = generations.load()
    assert step == 40
    steps.check(step, bundle)


def test_files_that_may_not_grow(writer, tmp_path, steps):
    generations = Generations(tmp_path / "run", keep_last=3)
    generations.save(40, *steps.content(40))
    result = writer.run("limited", tmp_path / "run", count=1)
    assert result.status == 0
    assert result.acknowledged == []
    assert len(result.said) == 1
    assert result.said[0].startswith(f"StoreError cannot write {tmp_path / 'run/00000080'}: ")
    assert [item.name for item in (tmp_path / "run").iterdir()] == ["00000040"]
    steps.check(*generations.load())
