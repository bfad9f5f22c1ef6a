#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Profile the columns of a CSV file and print the result as one JSON object.

Reads the file once, as a stream. Data goes to stdout (or --output), everything
else to stderr, so that the output can be piped straight into a JSON reader.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import io
import json
import math
import re
import statistics
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path

EXIT_OK, EXIT_BAD_DATA, EXIT_USAGE, EXIT_NO_FILE = 0, 1, 2, 3

EXIT_CODES = """\
exit codes:
  0  profile written
  1  the input is no usable CSV (empty, binary, wrong encoding, only a header)
  2  wrong use (unknown option, unknown column, file is a directory)
  3  a file does not exist, or cannot be read or written

examples:
  profile_csv.py sales.csv
  profile_csv.py export.csv --delimiter ';' --decimal , --encoding cp1252
  profile_csv.py wide.csv --columns id,price,created --top 10
  profile_csv.py huge.csv --max-rows 100000 --output profile.json
  gunzip -c log.csv.gz | profile_csv.py -
"""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "#n/a"})
BOOLEANS = frozenset({"true", "false", "yes", "no", "y", "n", "t", "f"})
DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t", "\\t": "\t", "\t": "\t", "auto": ""}
DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d %b %Y",
    "%b %d, %Y",
)
DATE_LIKE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}$|\d{1,2} [A-Za-z]{3} \d{4}$|[A-Za-z]{3} \d{1,2}, \d{4}$"
)
DATETIME_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$")
GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
COMMA_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?$")
WITH_UNIT = re.compile(r"[+-]?[$€£¥] ?[\d.,]+$|[+-]?[\d.,]+ ?[%$€£¥]$")
LEADING_ZERO = re.compile(r"0\d+$")
SAMPLE_BYTES = 64 * 1024
DISTINCT_CAP = 50_000
DUPLICATE_CAP = 2_000_000
LONG_CELL = 50  # lines; a longer quoted cell is more likely a forgotten quote
EXAMPLE_WIDTH = 80


class InputError(Exception):
    """The input cannot be profiled; the message says what to try."""

    def __init__(self, message: str, code: int = EXIT_BAD_DATA) -> None:
        super().__init__(message)
        self.code = code


# --- reading -----------------------------------------------------------------


def open_input(name: str) -> io.BufferedReader:
    """Open a file, or stdin for ``-``, as a buffered byte stream."""
    if name == "-":
        return sys.stdin.buffer  # type: ignore[return-value]
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a directory; name one CSV file", EXIT_USAGE)
    try:
        return path.open("rb", buffering=SAMPLE_BYTES)  # type: ignore[return-value]
    except FileNotFoundError:
        raise InputError(
            f"no such file: {name} (relative paths start at {Path.cwd()})", EXIT_NO_FILE
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", EXIT_NO_FILE) from None


def detect_encoding(sample: bytes) -> str:
    """Guess an encoding from byte-order marks, else UTF-8, else Windows-1252."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if sample.startswith(mark):
            return encoding
    if b"\0" in sample:
        raise InputError("the input contains NUL bytes: a spreadsheet or an archive? Export it as CSV first")
    try:
        # An incremental decoder accepts a sample that ends inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def detect_delimiter(text: str) -> str:
    """Choose the delimiter that splits the sampled rows most evenly into more than one field."""
    lines = text.splitlines()
    sample = lines[:-1] if len(lines) > 1 else lines  # the last line may be cut
    best, best_score = ",", 0.0
    for delimiter in ",;\t|":
        widths = Counter(len(row) for row in csv.reader(sample[:200], delimiter=delimiter) if row)
        if not widths:
            continue
        width, rows = widths.most_common(1)[0]
        score = rows / sum(widths.values()) * math.log(width) if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


# --- values ------------------------------------------------------------------


def parse_number(text: str, decimal: str) -> float | None:
    """Read a number, with thousands separators; None where it is none."""
    if decimal == ",":
        if not COMMA_NUMBER.match(text):
            return None
        text = text.replace(".", "").replace(",", ".")
    elif GROUPED.match(text):
        text = text.replace(",", "")
    elif not NUMBER.match(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def parse_datetime(text: str) -> datetime | None:
    """Read an ISO 8601 timestamp; time zones are dropped for comparison."""
    if not DATETIME_LIKE.match(text):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=None)
    except ValueError:
        return None


class Dates:
    """Values of one column that look like dates, with the formats that fit all of them."""

    def __init__(self) -> None:
        self.formats = list(DATE_FORMATS)
        self.values: set[str] = set()

    def add(self, text: str) -> bool:
        """Take the value if at least one format still fits every value so far."""
        if text in self.values:
            return True
        if not DATE_LIKE.match(text):
            return False
        fitting = [fmt for fmt in self.formats if _fits(text, fmt)]
        if not fitting:
            return False
        self.formats = fitting
        self.values.add(text)
        return True

    def span(self) -> tuple[date, date]:
        """Earliest and latest date, read with the first format that fits."""
        parsed = [datetime.strptime(value, self.formats[0]).date() for value in self.values]
        return min(parsed), max(parsed)


def _fits(text: str, fmt: str) -> bool:
    try:
        datetime.strptime(text, fmt)
    except ValueError:
        return False
    return True


class Column:
    """Everything learned about one column while rows stream by."""

    def __init__(self, name: str, decimal: str) -> None:
        self.name = name
        self.decimal = decimal
        self.rows = 0
        self.missing: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.capped = False
        self.numbers = array("d")
        self.dates = Dates()
        self.first_time: datetime | None = None
        self.last_time: datetime | None = None
        self.lengths = [sys.maxsize, 0, 0]  # shortest, longest, sum
        self.padded = self.leading_zeros = self.comma_decimals = self.units = 0

    def add(self, raw: str, missing: frozenset[str]) -> None:
        """Take one cell."""
        self.rows += 1
        text = raw.strip()
        if text.lower() in missing:
            self.missing[text] += 1
            return
        self.padded += text != raw
        if text in self.counts or len(self.counts) < DISTINCT_CAP:
            self.counts[text] += 1
        else:
            self.capped = True
        size = len(text)
        shortest, longest, total = self.lengths
        self.lengths = [min(shortest, size), max(longest, size), total + size]
        self.kinds[self._classify(text)] += 1

    def _classify(self, text: str) -> str:
        if text.lower() in BOOLEANS:
            return "boolean"
        if LEADING_ZERO.match(text):
            self.leading_zeros += 1
            return "text"
        number = parse_number(text, self.decimal)
        if number is not None:
            self.numbers.append(number)
            whole = number.is_integer() and self.decimal not in text and "e" not in text.lower()
            return "integer" if whole else "number"
        if self.dates.add(text):
            return "date"
        moment = parse_datetime(text)
        if moment is not None:
            self.first_time = min(self.first_time or moment, moment)
            self.last_time = max(self.last_time or moment, moment)
            return "datetime"
        self.comma_decimals += self.decimal == "." and COMMA_NUMBER.match(text) is not None
        self.units += WITH_UNIT.match(text) is not None
        return "text"

    @property
    def present(self) -> int:
        """Cells that hold a value."""
        return sum(self.kinds.values())

    @property
    def kind(self) -> str:
        """The type that at least 95 % of the values share, else text."""
        if not self.present:
            return "empty"
        kinds = Counter(self.kinds)
        if kinds["number"]:
            kinds["number"] += kinds.pop("integer", 0)
        kind, count = kinds.most_common(1)[0]
        return kind if count >= 0.95 * self.present else "text"

    def report(self, top: int) -> dict[str, object]:
        """Summarise the column as plain JSON values."""
        kind, missing = self.kind, self.rows - self.present
        result: dict[str, object] = {
            "name": self.name,
            "type": kind,
            "count": self.present,
            "missing": missing,
            "missing_pct": percent(missing, self.rows),
            "distinct": len(self.counts),
        }
        if self.capped:
            result["distinct_is_minimum"] = True
        if len(self.kinds) > 1:
            result["value_types"] = dict(self.kinds.most_common())
        if kind in {"integer", "number"}:
            result["stats"] = describe(self.numbers)
        elif kind == "date":
            first, last = self.dates.span()
            result.update(min=first.isoformat(), max=last.isoformat(), formats=self.dates.formats)
        elif kind == "datetime" and self.first_time and self.last_time:
            result.update(min=self.first_time.isoformat(), max=self.last_time.isoformat())
        elif kind == "text":
            shortest, longest, total = self.lengths
            result["length"] = {"min": shortest, "max": longest, "mean": round(total / self.present, 1)}
        result["top"] = [{"value": shorten(value), "count": n} for value, n in self.counts.most_common(top)]
        result["notes"] = [*self._notes(kind), *self._cleaning_notes(kind)]
        return result

    def _notes(self, kind: str) -> Iterator[str]:
        distinct, known = len(self.counts), sum(self.counts.values())
        if kind == "empty":
            yield "no values at all"
        elif distinct == 1 < self.present:
            yield "constant: one value in every filled row"
        elif self.capped:
            yield f"only the first {DISTINCT_CAP} distinct values were counted; top may be incomplete"
        if kind in {"integer", "text"} and 1 < distinct == known and self.present == self.rows:
            yield (
                "no value repeats in what was counted"
                if self.capped
                else "unique and complete: candidate key"
            )
        others = {name: n for name, n in self.kinds.items() if not same_type(name, kind)}
        if others and kind != "text":
            yield f"mixed: {sum(others.values())} of {self.present} values are not {kind}"
        elif others and not (set(others) == {"integer"} and self.kinds["text"] == self.leading_zeros):
            yield "mixed: some values look like " + ", ".join(sorted(others))
        if kind == "date" and len(self.dates.formats) > 1:
            yield "ambiguous dates: day and month cannot be told apart, ask which comes first"

    def _cleaning_notes(self, kind: str) -> Iterator[str]:
        if self.leading_zeros:
            yield f"leading zeros in {self.leading_zeros} value(s): identifiers or postal codes, keep as text"
        if self.comma_decimals:
            yield f"decimal commas in {self.comma_decimals} value(s): rerun with --decimal ,"
        if self.units:
            yield f"currency or percent signs in {self.units} value(s): strip before calculating"
        if self.padded:
            yield f"spaces around {self.padded} value(s): ignored here, trim before joining"
        if kind == "text" and not self.capped:
            folded = len({value.casefold() for value in self.counts})
            if folded < len(self.counts):
                yield f"{len(self.counts) - folded} value(s) differ from another only in letter case"
        if len(self.missing) > 1:
            yield "several spellings of missing: " + ", ".join(repr(token) for token in sorted(self.missing))


def same_type(value_kind: str, column_kind: str) -> bool:
    """Tell whether a value belongs in a column; an integer is welcome among numbers."""
    return value_kind == column_kind or (value_kind == "integer" and column_kind == "number")


def describe(numbers: array[float]) -> dict[str, float | int | None]:
    """Location, spread and the count beyond 1.5 interquartile ranges."""
    ordered = sorted(numbers)
    if len(ordered) > 1:
        low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive")
    else:
        low = middle = high = ordered[0]
    reach = 1.5 * (high - low)
    outliers = sum(value < low - reach or value > high + reach for value in ordered) if reach else 0
    total, mean, spread = moments(ordered)
    stats = {
        name: tidy(value)
        for name, value in (
            ("min", ordered[0]),
            ("q1", low),
            ("median", middle),
            ("q3", high),
            ("max", ordered[-1]),
            ("mean", mean),
            ("stdev", spread),
            ("sum", total),
        )
    }
    stats.update(
        zeros=sum(value == 0 for value in ordered),
        negative=sum(value < 0 for value in ordered),
        outliers=outliers,
    )
    return stats


def moments(numbers: list[float]) -> tuple[float | None, float | None, float | None]:
    """Sum, mean and sample standard deviation; None where a float cannot hold them."""
    try:
        total = math.fsum(numbers)
        mean = total / len(numbers)
        squares = math.fsum((value - mean) ** 2 for value in numbers)
    except OverflowError:
        return None, None, None
    return total, mean, math.sqrt(squares / (len(numbers) - 1)) if len(numbers) > 1 else 0.0


def tidy(value: float | None) -> float | int | None:
    """Round to eight significant digits and show whole numbers as integers."""
    if value is None or not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.8g}")


def percent(part: int, whole: int) -> float:
    """Express a share in percent with two decimals."""
    return round(100 * part / whole, 2) if whole else 0.0


def shorten(text: str) -> str:
    """Cut long values so that the output keeps a predictable size."""
    return text if len(text) <= EXAMPLE_WIDTH else text[: EXAMPLE_WIDTH - 1] + "…"


# --- the profile -------------------------------------------------------------


def unique_names(header: list[str]) -> list[str]:
    """Name every column: empty names get their position, repeated ones a suffix."""
    names: list[str] = []
    for position, cell in enumerate(header, 1):
        base = name = cell.strip() or f"column_{position}"
        suffix = 1
        while name in names:
            suffix += 1
            name = f"{base}_{suffix}"
        names.append(name)
    return names


def choose(names: list[str], wanted: str | None, limit: int) -> list[int]:
    """Positions of the columns to profile."""
    if wanted is None:
        return list(range(len(names)))[: limit or None]
    picked = [name.strip() for name in next(csv.reader([wanted]))]
    unknown = [name for name in picked if name not in names]
    if unknown:
        have = ", ".join(names[:40])
        raise InputError(f"no column {', '.join(map(repr, unknown))}; the file has: {have}", EXIT_USAGE)
    return [names.index(name) for name in picked]


class Table:
    """The rows as a whole: columns of interest, and what is odd about the shape."""

    def __init__(self, names: list[str], positions: list[int], options: argparse.Namespace) -> None:
        self.names = names
        self.positions = positions
        self.columns = [Column(names[position], options.decimal) for position in positions]
        self.missing = MISSING | {token.strip().lower() for token in options.missing}
        self.rows = self.short = self.long = self.duplicates = self.blank = 0
        self.truncated = False
        self.ragged_at: list[int] = []
        self.long_cell_at = 0
        self._seen: set[int] = set()

    def add(self, row: list[str], line: int) -> None:
        """Take one row; ``line`` is where it ends in the file."""
        self.rows += 1
        if len(row) != len(self.names):
            self.short += len(row) < len(self.names)
            self.long += len(row) > len(self.names)
            if len(self.ragged_at) < 5:
                self.ragged_at.append(line)
        if len(self._seen) < DUPLICATE_CAP:
            key = hash(tuple(row))
            self.duplicates += key in self._seen
            self._seen.add(key)
        for column, position in zip(self.columns, self.positions):
            column.add(row[position] if position < len(row) else "", self.missing)

    def read(self, reader: Iterator[list[str]], line: Callable[[], int], max_rows: int) -> None:
        """Take rows until the end, or until ``max_rows``."""
        before = line()
        for row in reader:
            if not row:
                self.blank += 1
            elif max_rows and self.rows >= max_rows:
                self.truncated = True
                break
            else:
                self.add(row, line())
            if line() - before > LONG_CELL:
                self.long_cell_at = self.long_cell_at or before + 1
            before = line()

    def warnings(self) -> Iterator[str]:
        """Say what the reader of the figures must know."""
        if self.short or self.long:
            where = ", ".join(map(str, self.ragged_at))
            yield f"fields missing in {self.short} row(s), surplus in {self.long}; first at line {where}"
        if self.long_cell_at:
            yield f"a quoted cell from line {self.long_cell_at} runs over many lines: is a quote not closed?"
        if self.duplicates:
            yield f"{self.duplicates} row(s) repeat an earlier row exactly"
        if len(self._seen) >= DUPLICATE_CAP:
            yield f"repeated rows were only looked for until {DUPLICATE_CAP} different ones were seen"
        if self.blank:
            yield f"{self.blank} blank line(s) skipped"
        if self.truncated:
            yield f"stopped after {self.rows} row(s) (--max-rows): the figures describe that part only"


def profile(stream: io.BufferedReader, options: argparse.Namespace) -> dict[str, object]:
    """Read the stream once and build the report."""
    sample = stream.peek(SAMPLE_BYTES)
    if not sample.strip():
        raise InputError("the input is empty")
    encoding = options.encoding or detect_encoding(sample)
    text = io.TextIOWrapper(stream, encoding=encoding, newline="")
    delimiter = DELIMITERS[options.delimiter] or detect_delimiter(sample.decode(encoding, errors="ignore"))
    reader = csv.reader(text, delimiter=delimiter)
    first = next((row for row in reader if any(cell.strip() for cell in row)), None)
    if first is None:
        raise InputError("the input holds no row with a value")
    names = unique_names([""] * len(first) if options.no_header else first)
    table = Table(names, choose(names, options.columns, options.max_columns), options)
    if options.no_header:
        table.add(first, reader.line_num)
    table.read(reader, lambda: reader.line_num, options.max_rows)
    if not table.rows:
        raise InputError("only a header, no data rows; use --no-header if the first row is data")
    left_out = [name for position, name in enumerate(names) if position not in table.positions]
    result: dict[str, object] = {
        "file": options.file,
        "encoding": encoding,
        "delimiter": delimiter,
        "rows": table.rows,
        "columns_total": len(names),
        "duplicate_rows": table.duplicates,
        "warnings": [*reading_warnings(first, encoding, left_out, options), *table.warnings()],
        "columns": [column.report(options.top) for column in table.columns],
    }
    if left_out:
        result["columns_left_out"] = left_out[:200]
    return result


def reading_warnings(
    header: list[str], encoding: str, left_out: list[str], options: argparse.Namespace
) -> Iterator[str]:
    """Say which guesses about the file may be wrong, and how to overrule them."""
    if encoding == "cp1252" and not options.encoding:
        yield "not UTF-8: read as Windows-1252; check accented letters, else give --encoding"
    if len(header) == 1 and options.delimiter == "auto":
        yield "only one column found: if that is wrong, give --delimiter"
    numeric = sum(parse_number(cell.strip(), options.decimal) is not None for cell in header)
    if not options.no_header and 2 * numeric >= len(header):
        yield "the header row looks like data: use --no-header if the file has no header"
    if left_out and options.columns is None:
        yield f"{len(left_out)} column(s) left out: name them with --columns, or use --max-columns 0"


def render(result: dict[str, object]) -> str:
    """Write JSON with one line per column: easy to read, and cheap in a context window."""
    head = dict(result)
    columns = head.pop("columns")
    assert isinstance(columns, list)
    lines = ",\n    ".join(json.dumps(column, ensure_ascii=False) for column in columns)
    opening = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    return f'{opening},\n  "columns": [\n    {lines}\n  ]\n}}\n'


# --- command line ------------------------------------------------------------


def at_least(minimum: int) -> Callable[[str], int]:
    """Make an argparse type for whole numbers from a minimum on."""

    def whole_number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"expected a whole number from {minimum} on, got {text!r}")
        return value

    return whole_number


def encoding_name(text: str) -> str:
    """Accept any encoding that Python knows."""
    try:
        return codecs.lookup(text).name
    except LookupError:
        raise argparse.ArgumentTypeError(f"unknown encoding {text!r}; try utf-8, cp1252, utf-16") from None


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="profile_csv.py",
        description="Profile the columns of a CSV file: types, gaps, statistics, oddities. Prints JSON.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("file", help="CSV file, or - for stdin")
    add(
        "--delimiter",
        choices=list(DELIMITERS),
        metavar="D",
        default="auto",
        help="one of , ; | tab auto (default: auto)",
    )
    add("--encoding", type=encoding_name, help="default: UTF-8, UTF-16 with a mark, else Windows-1252")
    add("--decimal", choices=[".", ","], metavar="SIGN", default=".", help=". or , (default: .)")
    add(
        "--no-header", action="store_true", help="the first row is data; columns become column_1, column_2, …"
    )
    add("--columns", metavar="A,B", help="profile only these columns (quote names that hold a comma)")
    add(
        "--missing",
        action="append",
        default=[],
        metavar="TOKEN",
        help="also count TOKEN as missing (repeatable)",
    )
    add(
        "--top", type=at_least(0), default=5, metavar="N", help="most frequent values per column (default: 5)"
    )
    add("--max-rows", type=at_least(0), default=0, metavar="N", help="stop after N rows; 0 = all (default)")
    add(
        "--max-columns",
        type=at_least(0),
        default=50,
        metavar="N",
        help="profile the first N; 0 = all (default: 50)",
    )
    add("--output", metavar="FILE", help="write the JSON there instead of to stdout")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    options = build_parser().parse_args(argv)
    csv.field_size_limit(2**31 - 1)
    try:
        with open_input(options.file) as stream:
            result = profile(stream, options)
        rendered = render(result)
        if options.output:
            Path(options.output).write_text(rendered, encoding="utf-8")
        else:
            sys.stdout.write(rendered)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except UnicodeError as error:
        print(f"error: cannot decode the input ({error}); give --encoding, e.g. cp1252", file=sys.stderr)
        return EXIT_BAD_DATA
    except csv.Error as error:
        print(f"error: malformed CSV ({error}); check quotes and --delimiter", file=sys.stderr)
        return EXIT_BAD_DATA
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_NO_FILE
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
