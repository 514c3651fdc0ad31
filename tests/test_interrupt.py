"""Requests to stop: one inside another, and in other threads."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import sparsegp
from sparsegp.errors import Interrupted
from sparsegp.interrupt import StoppedAtOnce, StopRequest
from sparsegp.progress import Progress
from tests.processes import run_python


def test_stop_requests_inside_one_another_share_the_request():
    with StopRequest() as outer:
        with StopRequest() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert inner.requested == outer.requested == "SIGTERM"
        with StopRequest() as later:
            assert later.requested == "SIGTERM"


def test_other_threads_have_the_request_of_the_main_one():
    def looked():
        with StopRequest() as stop:
            return stop.requested

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(looked).result() == ""
        with StopRequest():
            assert executor.submit(looked).result() == ""
            signal.raise_signal(signal.SIGTERM)  # in this thread, and so handled at once
            assert executor.submit(looked).result() == "SIGTERM"


def test_no_handler_of_errors_swallows_a_stop_at_once():
    """Readers of files call what they cannot read damaged, whatever the library raised."""
    with (
        pytest.raises(StoppedAtOnce, match="stopped by SIGTERM; run it again"),
        StopRequest(at_once="run it again"),
        suppress(Exception),
    ):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_handler_of_errors_swallows_a_stop_of_a_fit(number):
    X = np.random.default_rng(0).normal(size=(300, 2))

    class Stop(Progress):
        sent = False

        def update(self, done, **figures):
            if not self.sent:
                self.sent = True
                os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match=f"stopped by {number.name}"), suppress(Exception):
        sparsegp.train(X, X[:, 0] > 0, n_active=100, kernel="10*rbf", progress=Stop())


def test_an_import_does_not_swallow_a_stop_at_once(tmp_path):
    """As modules do that try one import after the other."""
    swallows = "try:\n    os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException:\n    pass\n"
    (tmp_path / "tries.py").write_text(f"import os, signal\n{swallows}")
    script = "with StopRequest(at_once='run it again'): import tries"
    words = "-c", f"from sparsegp.interrupt import StopRequest\n{script}"
    assert run_python(*words, code=75, cwd=tmp_path).stderr == "stopped by SIGTERM; run it again\n"


def test_signals_that_are_handled_outside_python_stay_so(monkeypatch):
    """As where another program embeds Python, whose handler could not be put back."""
    known = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda n: None if n == signal.SIGINT else known(n))
    handlers = {number: known(number) for number in StopRequest.SIGNALS}
    with StopRequest():
        assert known(signal.SIGINT) is handlers[signal.SIGINT]
        assert known(signal.SIGTERM) is not handlers[signal.SIGTERM]
    assert {number: known(number) for number in StopRequest.SIGNALS} == handlers


def test_signals_that_nohup_ignores_stay_so():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, former)
