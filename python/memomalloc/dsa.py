"""The planner: buffers whose lifetimes are known go into as little memory as possible.

    from memomalloc import dsa

    plan = dsa.plan(lower=[0, 1, 3, 4], upper=[4, 3, 6, 6], size=[2, 3, 3, 2])
    plan.offsets, plan.height, plan.optimal      # [0 2 2 0], 5, True

Buffer i lives during [lower[i], upper[i]) and has size[i] bytes; two that live at the same time share
no address. This is offline dynamic storage allocation, which is NP-hard; planner/README.md of the
project tells of the strategies and their sources. Every plan has passed a judge of its own.

Arrays of numpy are taken as they are; where numpy is not installed, sequences of int do. A million
buffers go in without a loop in Python, and other threads of Python run meanwhile.
"""

from __future__ import annotations

import array
import ctypes
import dataclasses
import operator
import pathlib
import threading
from typing import Any, Optional, Sequence, Union

try:
    import numpy
except ImportError:  # then sequences of int alone
    numpy = None  # type: ignore[assignment]

__all__ = ["Integers", "NoPlan", "Plan", "lower_bound", "plan", "planners", "validate"]

#: One integer for each buffer: a numpy array of any integer type, or a sequence of int.
Integers = Union[Sequence[int], Any]

_OK, _NO_PLAN, _BAD_INPUT = range(3)
_POLL_SECONDS = 0.05  # how long Ctrl-C may take to be noticed


class NoPlan(Exception):
    """No plan within the capacity or the time. `infeasible`: it is proved that there is none."""

    def __init__(self, message: str, lower_bound: int, infeasible: bool) -> None:
        super().__init__(message)
        self.lower_bound, self.infeasible = lower_bound, infeasible


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where each buffer lies."""

    offsets: Any  #: bytes from the start, one for each buffer: numpy int64, or array('q') without numpy
    height: int  #: bytes of memory that the plan needs: the greatest offset + size
    lower_bound: int  #: bytes; no plan is lower
    optimal: bool  #: the height is proved to be the least possible
    seconds: float  #: wall time of the planning alone
    planner: str
    interrupted: bool  #: Ctrl-C ended the search; this is the best that it had


class _Problem(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in ("lower", "upper", "size", "alignment", "fixed")] + [
        ("gap_count", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in ("gap_buffer", "gap_lower", "gap_upper")]


class _Options(ctypes.Structure):
    _fields_ = [("planner", ctypes.c_char_p), ("seconds", ctypes.c_double), ("capacity", ctypes.c_int64),
                ("seed", ctypes.c_uint64), ("stop", ctypes.c_void_p)]


class _Result(ctypes.Structure):
    _fields_ = [("height", ctypes.c_int64), ("lower_bound", ctypes.c_int64), ("optimal", ctypes.c_int),
                ("infeasible", ctypes.c_int), ("seconds", ctypes.c_double), ("row", ctypes.c_int64),
                ("message", ctypes.c_char * 160)]

    def text(self) -> str:
        return bytes(self.message).decode(errors="replace")


def _load() -> ctypes.CDLL:
    """The library of the package, or of the source folder's build, or the system's."""
    here = pathlib.Path(__file__).resolve().parent
    for place in (here / "lib/libmemomalloc-dsa.so.1", here.parents[1] / "build/libmemomalloc-dsa.so"):
        if place.exists():
            return ctypes.CDLL(str(place))
    try:
        return ctypes.CDLL("libmemomalloc-dsa.so.1")
    except OSError as error:
        raise ImportError("memomalloc.dsa needs libmemomalloc-dsa.so.1: `make` builds it in a source folder, and "
                          "the wheel carries it") from error


_library = _load()
_library.dsa_planner.restype = ctypes.c_char_p
_library.dsa_planner.argtypes = (ctypes.c_size_t,)
_library.dsa_stop_new.restype = ctypes.c_void_p
_library.dsa_stop_set.argtypes = _library.dsa_stop_free.argtypes = (ctypes.c_void_p,)
_library.dsa_plan.argtypes = (ctypes.c_void_p,) * 4
_library.dsa_validate.argtypes = (ctypes.c_void_p,) * 3
_library.dsa_lower_bound.argtypes = (ctypes.c_void_p,) * 2


def _wrong_row(name: str, values: Any, what: str) -> ValueError:
    """An error that names the first value that is not an integer of 64 bits."""
    for row, value in enumerate(values):
        try:
            fits = not isinstance(value, (str, bool)) and int(value) == value and -2**63 <= int(value) < 2**63
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            return ValueError(f"{name}[{row}] is {value!r}, which is {what}")
    return ValueError(f"{name} holds what is {what}")


def _column(name: str, values: Integers) -> Any:
    """The values as 64-bit integers in a row; the same memory where they are that already."""
    what = "no integer of 64 bits"
    if numpy is None:
        try:
            return array.array("q", values)
        except (TypeError, ValueError, OverflowError):
            raise _wrong_row(name, values, what) from None
    try:
        found = numpy.asarray(values)
    except (ValueError, OverflowError):
        raise _wrong_row(name, values, what) from None
    if found.ndim != 1:
        raise ValueError(f"{name} has {found.ndim} dimensions, and must have one")
    if found.size == 0:
        return numpy.zeros(0, numpy.int64)
    if found.dtype.kind == "O":  # whatever stands for an integer, such as Python's own
        try:
            found = numpy.array([operator.index(value) for value in found], numpy.int64)
        except (TypeError, OverflowError):
            raise _wrong_row(name, found, what) from None
    if found.dtype.kind not in "iu" or (found.dtype == numpy.uint64 and found.max() > 2**63 - 1):
        with numpy.errstate(invalid="ignore"):
            whole = found.astype(numpy.int64) if found.dtype.kind == "f" else None
        if whole is None or not (whole == found).all():
            raise _wrong_row(name, values, what)
        found = whole
    return numpy.ascontiguousarray(found, dtype=numpy.int64)


def _address(column: Any) -> Optional[int]:
    if column is None or len(column) == 0:
        return None
    return int(column.ctypes.data) if numpy is not None else column.buffer_info()[0]


def _fixed_column(values: Any) -> Any:
    """Fixed offsets, None or -1 where there is none."""
    if numpy is None or not isinstance(values, numpy.ndarray) or values.dtype.kind == "O":
        values = [-1 if value is None else value for value in values]
    column = _column("fixed", values)
    for row, value in enumerate(column) if len(column) and min(column) < -1 else ():
        if value < -1:
            raise ValueError(f"fixed[{row}] is {value}; an offset is at least 0, and None (or -1) is any")
    return column


class _Input:
    """The problem as the library takes it; keeps what it points to alive."""

    def __init__(self, lower: Integers, upper: Integers, size: Integers, alignment: Optional[Integers],
                 gaps: Optional[Any], fixed: Optional[Any]) -> None:
        columns = {"lower": _column("lower", lower), "upper": _column("upper", upper), "size": _column("size", size),
                   "alignment": None if alignment is None else _column("alignment", alignment),
                   "fixed": None if fixed is None else _fixed_column(fixed)}
        self.count = len(columns["lower"])
        for name, column in columns.items():
            if column is not None and len(column) != self.count:
                raise ValueError(f"{name} has {len(column)} elements, lower has {self.count}")
        rows = [] if gaps is None else gaps
        if numpy is not None:
            table = numpy.asarray(rows if len(rows) else numpy.zeros((0, 3), numpy.int64))
            if table.ndim != 2 or table.shape[1] != 3:
                raise ValueError("gaps must be rows of (buffer, lower, upper)")
            parts = [_column(f"gaps[:, {part}]", table[:, part]) for part in range(3)]
        else:
            if any(len(row) != 3 for row in rows):
                raise ValueError("gaps must be rows of (buffer, lower, upper)")
            parts = [_column(f"gaps[:, {part}]", [row[part] for row in rows]) for part in range(3)]
        self.kept = (columns, parts)
        self.problem = _Problem(self.count, *(_address(column) for column in columns.values()), len(parts[0]),
                                *(_address(part) for part in parts))


def _offsets(count: int) -> Any:
    return numpy.zeros(count, numpy.int64) if numpy is not None else array.array("q", bytes(8 * count))


class _Stop:
    """The flag that ends a search. Whoever may still look at it keeps it: the thread that searches may go on
    after the one that waits was thrown out."""

    def __init__(self) -> None:
        self.flag = _library.dsa_stop_new()
        if not self.flag:
            raise MemoryError("no memory for a plan")

    def set(self) -> None:
        _library.dsa_stop_set(self.flag)

    def __del__(self) -> None:
        _library.dsa_stop_free(self.flag)


def _interruptible(call: Any, stop: _Stop) -> bool:
    """Runs call() in a thread where Ctrl-C would not reach it otherwise; True if Ctrl-C came. Any other
    exception of a signal's handler, or a second Ctrl-C, ends the search as well, and is raised."""
    if threading.current_thread() is not threading.main_thread():
        call()
        return False
    done, interrupted = threading.Event(), False

    def work() -> None:
        try:
            call()
        finally:
            done.set()

    try:
        # Not by join(): Ctrl-C in the middle of one makes Python 3.11 take the thread for ended.
        threading.Thread(target=work, daemon=True).start()
        while not done.is_set():
            try:
                done.wait(_POLL_SECONDS)
            except KeyboardInterrupt:
                interrupted = True
                stop.set()
    except BaseException:
        stop.set()
        raise
    return interrupted


def planners() -> list[str]:
    """The names of the strategies, cheapest first."""
    found: list[str] = []
    while name := _library.dsa_planner(len(found)):
        found.append(name.decode())
    return found


def plan(lower: Integers, upper: Integers, size: Integers, *, alignment: Optional[Integers] = None,
         gaps: Optional[Any] = None, fixed: Optional[Any] = None, capacity: Optional[int] = None,
         seconds: float = 10.0, planner: str = "portfolio", seed: int = 1) -> Plan:
    """Gives each of n buffers an offset.

    lower, upper: shape (n,), steps of any origin; buffer i lives during [lower[i], upper[i]).
    size: shape (n,), bytes, at least 0.
    alignment: shape (n,), bytes, at least 1, any integer; 1 for all if None.
    gaps: rows of (buffer, lower, upper): times inside its lifetime in which a buffer is dead, and its
        bytes may serve others; those of one buffer in order of time.
    fixed: shape (n,), offsets to keep, bytes; None or -1 where there is none.
    capacity: bytes; stops at the first plan of at most this height. None: as low as possible.
    seconds: most wall time; the search stops sooner where the lower bound is reached.
    planner: one of planners().
    seed: equal problem, options and seed give the equal plan while the time suffices.

    Ctrl-C ends the search with the best plan so far, whose `interrupted` is then True; where there is
    none yet, KeyboardInterrupt is raised. ValueError names the row that is wrong; NoPlan says that
    there is none within the capacity or the time.
    """
    given = _Input(lower, upper, size, alignment, gaps, fixed)
    if capacity is not None and not 0 <= capacity < 2**63:
        raise ValueError(f"capacity is {capacity}; it must be from 0 to 2**63 - 1")
    offsets, result, status, stop = _offsets(given.count), _Result(), [_NO_PLAN], _Stop()
    options = _Options(planner.encode(), seconds, -1 if capacity is None else capacity, seed % 2**64, None)

    def call() -> None:
        options.stop = stop.flag  # here, so that the flag is kept until the search has ended
        status[0] = _library.dsa_plan(ctypes.byref(given.problem), ctypes.byref(options), _address(offsets),
                                      ctypes.byref(result))

    interrupted = _interruptible(call, stop)
    if status[0] == _BAD_INPUT:
        raise ValueError(result.text())
    if status[0] == _NO_PLAN:
        if interrupted:
            raise KeyboardInterrupt
        raise NoPlan(result.text(), result.lower_bound, bool(result.infeasible))
    return Plan(offsets, result.height, result.lower_bound, bool(result.optimal), result.seconds, planner, interrupted)


def validate(lower: Integers, upper: Integers, size: Integers, offsets: Integers, *,
             alignment: Optional[Integers] = None, gaps: Optional[Any] = None,
             fixed: Optional[Any] = None) -> int:
    """The height in bytes of a plan that is right; ValueError names the buffers that are not.

    The arguments are those of plan(); `offsets`, shape (n,), in bytes. The judge shares no code with
    the planners.
    """
    given, result = _Input(lower, upper, size, alignment, gaps, fixed), _Result()
    column = _column("offsets", offsets)
    if len(column) != given.count:
        raise ValueError(f"offsets has {len(column)} elements, lower has {given.count}")
    if _library.dsa_validate(ctypes.byref(given.problem), _address(column), ctypes.byref(result)) != _OK:
        raise ValueError(result.text())
    return int(result.height)


def lower_bound(lower: Integers, upper: Integers, size: Integers, *, alignment: Optional[Integers] = None,
                gaps: Optional[Any] = None, fixed: Optional[Any] = None) -> int:
    """Bytes that every plan needs: the greatest sum of sizes alive at one time, or the end of the highest
    fixed buffer; whole multiples of a divisor that all alignments share. The arguments are those of plan()."""
    given, result = _Input(lower, upper, size, alignment, gaps, fixed), _Result()
    if _library.dsa_lower_bound(ctypes.byref(given.problem), ctypes.byref(result)) != _OK:
        raise ValueError(result.text())
    return int(result.lower_bound)
