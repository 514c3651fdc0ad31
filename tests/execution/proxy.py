"""A TCP proxy that can stop forwarding, as a network that is cut does: nobody is told."""

import asyncio
import socket
import threading
from typing import Self


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Proxy:
    """Forwards connections to a port of this machine, in a thread of its own.

    Parameters
    ----------
    port : int
        To forward to.

    Attributes
    ----------
    address : str
        Where it listens.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._whole = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.clear)

    async def _listen(self) -> asyncio.Event:
        whole = asyncio.Event()
        whole.set()
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.address = "tcp://{}:{}".format(*self._server.sockets[0].getsockname())
        return whole

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, there = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, there}
        await asyncio.gather(self._pipe(reader, there), self._pipe(answers, writer))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    async def _end(self) -> None:
        self._server.close()
        self._whole.set()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
