"""Reads the TSV of anyone's entry: bytes to a table of text, naming every departure from the form on the way.

The form (README of stanford-futuredata/dawn-bench-entries): tab separated, a header with the four names in any
order, one row an epoch. What the columns hold is settled in columns.py, what the figures mean in meaning.py.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dawnrun.errors import ReportError
from dawnrun.report.defect import Defect, at_lines, code_part

EPOCH, HOURS, TOP1, TOP5 = ROLES = ("epoch", "hours", "top1Accuracy", "top5Accuracy")
MAX_BYTES = 16 << 20
"""Far above any entry; keeps a wrong path (a disk image, an endless device) from filling the memory."""
NUMERIC = re.compile(r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?|[+-]?(?:nan|inf(?:inity)?)", re.I)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line as written, without its end (`end` is empty where the file stops)."""

    number: int
    text: str
    end: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRow:
    """The cells of one row; empty cells are kept where they hold a place."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The TSV as text. `names`: what each header cell stands for, None where it is none of the four roles."""

    file: str
    text: str
    names: tuple[str | None, ...] | None
    header_line: int
    width: int
    rows: tuple[TextRow, ...]
    defects: tuple[Defect, ...]


def read_bytes(path: Path) -> bytes:
    """The file's bytes. Raises ReportError where it cannot be read or is no entry by its size."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ReportError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a DAWNBench entry")
    return data


def decode(data: bytes, file: str) -> tuple[str, list[Defect]]:
    """Text of an entry's file, with the defects of its encoding."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "UTF-16; write it as UTF-8"
        return data.decode("utf-16", errors="replace"), [Defect(code="not_utf8", file=file, line=1, message=message)]
    defects = []
    if data.startswith(b"\xef\xbb\xbf"):
        message = "a byte order mark before the first character, which some readers take for part of the first name"
        defects.append(Defect(code="byte_order_mark", file=file, line=1, message=message))
    try:
        return data.decode("utf-8-sig"), defects
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        defects.append(Defect(code="not_utf8", file=file, line=line, message=f"byte {data[error.start]:#04x}"))
        return data.decode("utf-8-sig", errors="replace"), defects


def split_lines(text: str) -> list[Line]:
    """Lines with their ends: LF, CR LF, or CR alone."""
    parts = re.split(r"(\r\n|\n|\r)", text)
    lines = [
        Line(number=index // 2 + 1, text=parts[index], end=parts[index + 1]) for index in range(0, len(parts) - 1, 2)
    ]
    if parts[-1]:
        lines.append(Line(number=len(lines) + 1, text=parts[-1], end=""))
    return lines


def line_end_defects(lines: Sequence[Line], file: str) -> list[Defect]:
    """CR LF, CR alone, and a last line without an end."""
    defects = []
    for code, end, what in (("crlf", "\r\n", "CR LF"), ("cr_line_ends", "\r", "CR alone")):
        found = [line.number for line in lines if line.end == end]
        if found:
            message = f"{len(found)} of {len(lines)} lines end in {what}; the form is LF"
            defects.append(Defect(code=code, file=file, line=found[0], message=message))
    if lines and not lines[-1].end:
        defects.append(
            Defect(code="no_final_newline", file=file, line=lines[-1].number, message="the last line has no end")
        )
    return defects


def read_table(data: bytes, file: str) -> Table:
    """The table in a TSV's bytes. Never raises: what cannot be read becomes a defect and no row."""
    text, defects = decode(data, file)
    lines = split_lines(text)
    defects += line_end_defects(lines, file) + list(_blank_defects(lines, file))
    full = [line for line in lines if line.text.strip() and not line.text.lstrip().startswith("#")]
    comments = [line.number for line in lines if line.text.lstrip().startswith("#")]
    defects += at_lines("comment_line", file, comments, "the form has no comments")
    names, header_defects = _header(full, file)
    defects += header_defects
    body = full if names is None else full[1:]
    if names is not None:
        repeated = [line.number for line in body if line.text.split() == full[0].text.split()]
        defects += at_lines("header_repeated", file, repeated, "the header again, as where two files were joined")
        body = [line for line in body if line.number not in repeated]
    width = _width(body, 4 if names is None else len(names))
    rows, row_defects = _rows(body, width, None if names is None else len(names), file)
    header_line = full[0].number if full else 1
    return Table(
        file=file,
        text=text,
        names=names,
        header_line=header_line,
        width=width,
        rows=rows,
        defects=(*defects, *row_defects),
    )


def _blank_defects(lines: Sequence[Line], file: str) -> Iterator[Defect]:
    """Blank lines, and white space where a line begins or ends."""
    last = max((line.number for line in lines if line.text.strip()), default=0)
    blank = [line.number for line in lines if not line.text.strip()]
    yield from at_lines("blank_line", file, [line for line in blank if line < last], "a blank line between rows")
    trailing = [line for line in blank if line > last]
    yield from at_lines("trailing_blank_line", file, trailing, "a blank line at the end")
    written = [line for line in lines if line.text.strip()]
    after = [line.number for line in written if line.text[-1] in " \t"]
    yield from at_lines("trailing_space", file, after, "blanks or tabs after the last field")
    before = [line.number for line in written if line.text[0] in " \t"]
    yield from at_lines("leading_space", file, before, "blanks or tabs before the first field")


def _header(lines: Sequence[Line], file: str) -> tuple[tuple[str | None, ...] | None, list[Defect]]:
    """What the header's cells stand for; None where the first line already holds figures."""
    if not lines:
        return None, [Defect(code="empty_file", file=file, line=1, message="no header and no row")]
    line = lines[0]

    def defect(code: str, message: str) -> Defect:
        return Defect(code=code, file=file, line=line.number, message=message)

    words = re.split(r"[\s;,]+", line.text.strip())
    if 2 * sum(NUMERIC.fullmatch(word) is not None for word in words) >= len(words):
        message = f"the first line holds figures; the form starts with {' '.join(ROLES)}"
        return None, [defect("header_missing", message)]
    cells, code = _split(line.text, None)
    defects = []
    if code == "double_tabs":
        defects.append(defect(code, "two tabs between some columns' names"))
    elif code:
        defects.append(defect(f"header_{code.removeprefix('rows_')}", "the names are not separated by tabs"))
    lacking = [role for role in ROLES if role not in cells]
    if lacking:
        message = f"no column is called {' or '.join(lacking)}; the header reads {' '.join(cells)}"
        defects.append(defect(f"header_lacks_{'+'.join(lacking)}", message))
    names = tuple(_role(cell, lacking) for cell in cells)
    extra = [cell for cell, name in zip(cells, names, strict=True) if name is None]
    if extra:
        message = f"{', '.join(extra)}: not part of the form; not read"
        defects.append(defect(f"header_extra_{'+'.join(map(code_part, extra))}", message))
    doubled = [role for role in ROLES if names.count(role) > 1]
    defects += [defect(f"header_duplicate_{role}", f"several columns are called {role}") for role in doubled]
    return names, defects


def _role(cell: str, lacking: Sequence[str]) -> str | None:
    """The role a header cell names; a near miss (`Top-1 accuracy`) counts where that role is named nowhere else."""
    if cell in ROLES:
        return cell
    plain = re.sub(r"[^a-z0-9]", "", cell.casefold())
    prefixes = {EPOCH: ("epoch",), HOURS: ("hour",), TOP1: ("top1", "acc1"), TOP5: ("top5", "acc5")}
    return next((role for role in lacking if plain.startswith(prefixes[role])), None)


def _width(body: Sequence[Line], default: int) -> int:
    """How many cells most rows have; the header's count where rows are equally split."""
    counts = Counter(len([cell for cell in _split(line.text, None)[0] if cell]) for line in body)
    if not counts:
        return default
    most = max(counts.values())
    return default if counts.get(default) == most else max(width for width, seen in counts.items() if seen == most)


def _split(text: str, width: int | None) -> tuple[tuple[str, ...], str]:
    """Cells of a line and the code of how they were separated, empty for single tabs."""
    if "\t" not in text.strip():
        words = re.split(r"\s+", text.strip())
        if len(words) > 1:
            return tuple(words), "rows_space_separated"
        words = re.split(r"[,;]", text.strip())
        return (tuple(words), "rows_comma_separated") if len(words) > 1 else ((text.strip(),), "")
    cells = [cell.strip().strip('"') for cell in text.strip(" ").split("\t")]
    while cells[-1] == "" and (width is None or len(cells) > width):
        cells.pop()
    while cells[0] == "" and (width is None or len(cells) > width):
        cells.pop(0)
    words = text.split()
    if any(re.search(r"\s", cell) for cell in cells) and (width is None or len(words) == width):
        return tuple(words), "rows_space_separated"
    if "" not in cells:
        return tuple(cells), ""
    if len(cells) == width:
        return tuple(cells), "empty_cell"
    full = tuple(cell for cell in cells if cell)
    return (full if width in (None, len(full)) else tuple(cells)), "double_tabs"


def _rows(
    body: Sequence[Line], width: int, header_width: int | None, file: str
) -> tuple[tuple[TextRow, ...], list[Defect]]:
    """Rows of cells; a row of another width than the table's keeps none, since its cells have no certain place."""
    rows, places = [], dict[tuple[str, str], list[int]]()
    sentences = {
        "rows_space_separated": "blanks instead of tabs between fields",
        "rows_comma_separated": "commas or semicolons instead of tabs between fields",
        "double_tabs": "two tabs between some fields; a plain reader takes the empty ones for values",
        "empty_cell": "a field is empty",
    }
    for line in body:
        cells, code = _split(line.text, width)
        if code:
            places.setdefault((code, sentences[code]), []).append(line.number)
        wanted, kind = (width, "rows") if header_width is None else (header_width, "header")
        if len(cells) != wanted:
            code, message = f"row_width_{len(cells)}_vs_{kind}_{wanted}", f"{len(cells)} fields instead of {wanted}"
            places.setdefault((code, message), []).append(line.number)
        rows.append(TextRow(line=line.number, cells=cells if len(cells) == width else ()))
    return tuple(rows), [
        defect for (code, message), lines in places.items() for defect in at_lines(code, file, lines, message)
    ]
