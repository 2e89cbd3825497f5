"""A client of a Portico server: agents, programs with tools, approvals and files."""

from .aclient import AsyncPortico, AsyncRun
from .client import Portico, Run
from .errors import PorticoError
from .models import Approval, Event, File, ProgramResult, RunResult
from .tools import Tool, tool

__all__ = [
    "Approval",
    "AsyncPortico",
    "AsyncRun",
    "Event",
    "File",
    "Portico",
    "PorticoError",
    "ProgramResult",
    "Run",
    "RunResult",
    "Tool",
    "tool",
]
