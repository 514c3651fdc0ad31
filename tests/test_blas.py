"""Results do not depend on threads of BLAS, and the process keeps the number it had.

Every test runs in a process of its own, with two threads of BLAS and the kernels of a processor
without AVX-512, whose products differ in their last bits with the number of threads.
"""

import os

import pytest

from tests.processes import environment, run_python

START = """
import numpy as np, sparsegp, scipy.linalg, threadpoolctl
from sklearn.datasets import load_digits
from sparsegp.blas import single_threaded_blas
X, y = (rows[:900] for rows in load_digits(return_X_y=True))
def counts():
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
"""


def run(script):
    names = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"}
    run_python("-c", START + script, env=environment() | names, timeout=120)


@pytest.mark.slow
def test_predictions_in_threads_and_chunks_are_the_same_and_leave_the_process_as_it_was():
    run("""
import dask.array as da
from concurrent.futures import ThreadPoolExecutor
model = sparsegp.train(X, y, n_active=300, calibration="none")
before = counts()
assert max(before) == 2
for predict in (model.predict_proba, lambda X: model.latent_mean_and_variance(X)[1]):
    eager = predict(X)
    for rows in (100, 600):
        lazy = predict(da.from_array(X, chunks=(rows, 64)))
        for scheduler in ("threads", "synchronous"):
            assert (lazy.compute(scheduler=scheduler) == eager).all()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda size: predict(X[:size]), [300, 700, 900] * 4))
    assert all((some == eager[: len(some)]).all() for some in found)
assert counts() == before
""")


@pytest.mark.slow
def test_the_last_of_several_restores_what_the_first_found():
    """Whatever the order in which they end; and a limit of the caller."""
    run("""
import threading
before = counts()
def hold(begun, event):
    with single_threaded_blas():
        begun.wait(10)
        event.wait(10)
for order in (0, 1, 2), (2, 1, 0), (1, 2, 0):
    begun, leave = threading.Barrier(4), [threading.Event() for _ in range(3)]
    threads = [threading.Thread(target=hold, args=(begun, event)) for event in leave]
    for thread in threads:
        thread.start()
    begun.wait(10)
    for index in order:
        assert set(counts()) == {1}, counts()
        leave[index].set()
        threads[index].join()
    assert counts() == before
with threadpoolctl.threadpool_limits(2):
    with single_threaded_blas():
        assert set(counts()) == {1}
    assert set(counts()) == {2}
assert counts() == before
""")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
def test_a_forked_child_trains_and_tunes():
    """While another thread of the parent holds the limit, which the child has not."""
    run("""
import os, signal, threading
X, y = X[:400], y[:400]
model = sparsegp.train(X, y, n_active=20)
sparsegp.tune(X, y, n_active=10, max_trials=1)
before, begun, leave = counts(), threading.Event(), threading.Event()
def hold():
    with single_threaded_blas():
        begun.set()
        leave.wait()
threading.Thread(target=hold).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    assert counts() == before
    same = sparsegp.train(X, y, n_active=20)
    sparsegp.tune(X, y, n_active=10, max_trials=1)
    os._exit(0 if (same.predict_proba(X) == model.predict_proba(X)).all() else 1)
leave.set()
assert os.waitpid(child, 0)[1] == 0
assert counts() == before
""")
