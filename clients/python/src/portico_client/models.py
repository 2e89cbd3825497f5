"""What the server answers. Every object keeps all that was sent in raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """One event of a run: docs/agents.md and docs/programs.md say which there are."""

    id: int
    type: str
    raw: Raw = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """Words of the answer, where the event is a piece of it (type stream)."""
        return str(self.raw.get("content") or "") if self.type == "stream" else ""


@dataclass(frozen=True)
class RunResult:
    """A run as it is at the moment. status is waiting, running, finish, error or aborted."""

    result_id: str
    version: int
    status: str
    answer: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    raw: Raw = field(repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether nothing of it will change any more."""
        return self.status in ("finish", "error", "aborted")


@dataclass(frozen=True)
class ProgramResult:
    """What came of a program.

    status is completed, or says how it failed: failed, timed_out, out_of_memory,
    cancelled or killed. error is why, in words, where the server says it.
    """

    status: str
    stdout: str
    stderr: str
    error: str
    raw: Raw = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the program came to its end."""
        return self.status == "completed"


@dataclass(frozen=True)
class Approval:
    """A call that waits for a person, or did. state is waiting, allowed, refused or expired."""

    call_id: str
    toolset: str
    tool: str
    arguments: Any
    reason: str
    state: str
    expires_at: str
    raw: Raw = field(repr=False, compare=False)


@dataclass(frozen=True)
class File:
    """A file of a canvas. size is in bytes."""

    file_id: str
    canvas_id: str
    name: str
    type: str
    size: int
    raw: Raw = field(repr=False, compare=False)


def run_result(raw: Raw) -> RunResult:
    """Read a run."""
    said = [m.get("content") or "" for m in raw.get("messages") or [] if m.get("type") == "ai"]
    return RunResult(
        result_id=raw["resultId"],
        version=raw["version"],
        status=raw["status"],
        answer=next((text for text in reversed(said) if text), ""),
        errors=tuple(raw.get("errors") or ()),
        warnings=tuple(raw.get("warnings") or ()),
        raw=raw,
    )


def approval(raw: Raw) -> Approval:
    """Read an approval."""
    return Approval(
        call_id=raw["callId"],
        toolset=raw["toolset"],
        tool=raw["tool"],
        arguments=raw["arguments"],
        reason=raw["reason"],
        state=raw["state"],
        expires_at=raw["expiresAt"],
        raw=raw,
    )


def file(raw: Raw) -> File:
    """Read a file."""
    return File(raw["fileId"], raw["canvasId"], raw["name"], raw["type"], raw["size"], raw)
