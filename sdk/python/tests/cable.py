"""A cable to the service that breaks at a chosen place of the first exchange of each connection."""

from __future__ import annotations

import asyncio
import random

PLACES = {
    # place: whether a task exists then (None: it may)
    "before connecting": False,
    "at accept": False,
    "in the head of the request": False,
    "in the body of the request": False,
    "after the request": None,
    "after the answer was sent": True,
    "in the head of the answer": True,
    "in the body of the answer": True,
}


class Cable:
    """Forwards every connection; the first request with a create breaks it, as often as `times` says."""

    def __init__(self, port: int, place: str, times: int, seed: int) -> None:
        self._port, self._place, self.left = port, place, times
        self._random = random.Random(seed)
        self.port = 0

    async def __aenter__(self) -> Cable:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def _takes(self) -> bool:
        self.left -= 1
        return self.left >= 0

    async def _message(self, reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return head, await reader.readexactly(int(lengths[0]) if lengths else 0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._place == "at accept" and self._takes():
                return
            while True:
                head, body = await self._message(reader)
                # A connection of its own: the service must not see that the caller is still there.
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
                broken = head.startswith(b"POST") and b"/task " in head and self._place != "at accept" and self._takes()
                place = self._place if broken else ""
                cut = self._random.random()
                try:
                    if place == "in the head of the request":
                        up_writer.write(head[: int(cut * len(head))])
                    elif place == "in the body of the request":
                        up_writer.write(head + body[: int(cut * len(body))])
                    else:
                        up_writer.write(head + body)
                    await up_writer.drain()
                    if place and "answer" not in place:
                        return
                    answer_head, answer_body = await self._message(up_reader)
                    if place == "after the answer was sent":
                        return
                    if place == "in the head of the answer":
                        writer.write(answer_head[: int(cut * len(answer_head))])
                    elif place == "in the body of the answer":
                        writer.write(answer_head + answer_body[: int(cut * len(answer_body))])
                    else:
                        writer.write(answer_head + answer_body)
                    await writer.drain()
                    if place:
                        return
                finally:
                    up_writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
