"""Ways to damage bytes, JSON and folders, as strategies."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

NUMBERS = [0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63]
"""Sizes at which readers go wrong."""

NASTY: list[Any] = [
    *(None, True, False, -1, 0, 1, 7, 2**31, 10**12, 2**63, 10**30, 10**400, 0.5, 1e308),
    *(float("nan"), float("inf"), "", "x", "NaN", "../x", "/etc/passwd", "é\0", "\ud800"),
    *("a" * 5000, [], {}, [0], [[]], [-1, 4], [10**12, 4], {"name": "pickle"}, {"id": "pickle"}),
]
"""Values that no metadata should have where they are put."""

nasty = st.sampled_from(NASTY).map(copy.deepcopy)

DEEP = "[" * 100_000
"""JSON nested more deeply than parsers can follow."""


@st.composite
def cut_and_flipped(draw: st.DrawFn, content: bytes) -> bytes:
    """Damage bytes: some are cut off, changed, inserted, repeated, or left as they are."""
    damaged = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(damaged)))
        kind = draw(st.sampled_from(["flip", "number", "cut", "drop", "insert", "repeat"]))
        if kind == "flip" and place < len(damaged):
            damaged[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "number":
            width = draw(st.sampled_from([1, 2, 4, 8]))
            number = draw(st.sampled_from(NUMBERS)) % (1 << 8 * width)
            order: Any = draw(st.sampled_from(["little", "big"]))
            damaged[place : place + width] = number.to_bytes(width, order)
        elif kind == "cut":
            del damaged[place:]
        elif kind == "drop":
            del damaged[place : place + draw(st.integers(1, 40))]
        elif kind == "insert":
            damaged[place:place] = draw(st.binary(min_size=1, max_size=12))
        elif kind == "repeat":
            damaged[place:place] = damaged[place : place + draw(st.integers(1, 60))]
    return bytes(damaged)


@st.composite
def altered(draw: st.DrawFn, value: Any) -> Any:
    """Replace, remove or add something at a random place of a JSON value."""
    changed = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 2))):
        holder: Any = None
        key: Any = None
        node = changed
        while isinstance(node, dict | list) and node:
            if holder is not None and draw(st.integers(0, 4)) == 0:
                break
            keys = sorted(node) if isinstance(node, dict) else range(len(node))
            holder, key = node, draw(st.sampled_from(list(keys)))
            node = holder[key]
        if holder is None:
            return draw(nasty)
        kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        if kind == "replace":
            holder[key] = draw(nasty)
        elif kind == "remove":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "x", "../x"]))] = draw(nasty)
        else:
            holder.append(draw(nasty))
    return changed


@st.composite
def altered_json(draw: st.DrawFn, content: bytes) -> bytes:
    """Alter a JSON text as a value, seldom as bytes, or make it too deep."""
    kind = draw(st.sampled_from(["value"] * 8 + ["bytes", "deep"]))
    if kind == "deep":
        return DEEP.encode()
    if kind == "bytes":
        return draw(cut_and_flipped(content))
    return json.dumps(draw(altered(json.loads(content)))).encode()


@st.composite
def altered_folder(draw: st.DrawFn, files: dict[str, bytes]) -> dict[str, bytes | None]:
    """Damage one or two files of a folder; None stands for a link that leads out of it."""
    damaged: dict[str, bytes | None] = dict(files)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        kind = draw(st.sampled_from(["inside", "inside", "inside", "swap", "remove", "link"]))
        if kind == "inside":
            strategy = altered_json if name.endswith(("json", ".zarray")) else cut_and_flipped
            damaged[name] = draw(strategy(files[name]))
        elif kind == "swap":
            other = draw(st.sampled_from(sorted(files)))
            damaged[name], damaged[other] = files[other], files[name]
        elif kind == "remove":
            damaged.pop(name, None)
        else:
            damaged[name] = None
    return damaged
