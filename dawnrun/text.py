"""How values are written for people: durations, money, counts, sizes, and the nearest known name."""

import difflib
import math
import unicodedata
from collections.abc import Iterable


def duration(seconds: float) -> str:
    """`h:mm:ss`, rounded up to whole seconds as DAWNBench's board does."""
    # 1e-6 s: a sum of float spans must not push an exact second over the edge.
    whole = math.ceil(seconds - 1e-6)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def seconds(value: float) -> str:
    """Short seconds for tables: `0.42 s`, `83.1 s`."""
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def money(usd: float) -> str:
    """`117.50 USD`."""
    return f"{usd:,.2f} USD"


def count(value: float) -> str:
    """Whole number with thousands separators."""
    return f"{value:,.0f}"


def plural(number: int, noun: str, several: str | None = None) -> str:
    """`1 image`, `2 images`; `several` is the plural where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def size(num_bytes: float) -> str:
    """`97.8 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories that steer a terminal or an editor, break lines, or are no characters at all."""


def escaped(value: object, *, keep: str = "") -> str:
    r"""Text that only shows: control, bidirectional and line separating characters as `\x1b`, bytes that are no UTF-8 as `\xff`.

    For all that comes from users: names, paths, messages with them. `keep`: characters that are let through.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _CONTROL else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    """A character as Python writes it; one of `surrogateescape` as the byte that it stands for."""
    code = ord(char)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else char.encode("unicode_escape").decode()


SHORT_NAME = 3
"""Up to so many letters a name must be more alike to be called near: half of `bs` is in `b`."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None if none is close; hyphens and underscores are alike."""
    by_plain = {plain.replace("-", "_").casefold(): plain for plain in known}
    found = difflib.get_close_matches(
        name.replace("-", "_").casefold(), by_plain, n=1, cutoff=0.7 if len(name) <= SHORT_NAME else 0.6
    )
    return by_plain[found[0]] if found else None
