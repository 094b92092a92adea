"""Lists of hosts as schedulers print them: `n[08-11,20]-ib,head`."""

import re
from collections.abc import Sequence

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
MOST_HOSTS = 10_000


def expand(text: str) -> Sequence[str]:
    """Every name in a list, in order; several bracketed parts multiply. Raises ValueError, with what is wrong.

    >>> expand("n[08-10],head")
    ['n08', 'n09', 'n10', 'head']
    """
    names = [name for part in _split(text) for name in _expand_one(part)]
    if not names or "" in names:
        raise ValueError(f"{text}: an empty name in a list of hosts")
    return names


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError(f"{text}: brackets that do not match")
    return [part.strip() for part in parts]


def _expand_one(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    # An IPv6 address in brackets is a host, not a list.
    if not bracket or (":" in rest and not head):
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _expand_one(tail)
    if len(tails) > MOST_HOSTS:
        raise ValueError(f"{part}: more than {MOST_HOSTS} hosts")
    return [f"{head}{number}{end}" for number in _numbers(inside, part) for end in tails]


def _numbers(inside: str, part: str) -> list[str]:
    """`08-10,20` as four texts, zeros kept."""
    found: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise ValueError(f"{part}: {item or 'nothing'} is no number and no range of them")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= MOST_HOSTS:
            raise ValueError(f"{part}: the range {item} is empty or has more than {MOST_HOSTS} hosts")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return found
