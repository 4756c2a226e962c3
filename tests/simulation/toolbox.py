"""Tools that do what tools do, well or badly, and check that they are run only when they may be (P4, P7, T3)."""

from typing import Any

import msgspec
import trio

from simulation.faulty_store import Committed
from simulation.journal import Journal
from turnwire.tools.base import Approval, Question, Tool, ToolContext, ToolFailure, ToolInputError
from turnwire.tools.registry import ToolRegistry

TIMEOUT_SECONDS = 5.0


class Toolbox:
    """The tools of one run, through all of its processes."""

    def __init__(self, journal: Journal, committed: Committed) -> None:
        self._journal = journal
        self._committed = committed
        self.running = 0
        self.started: set[str] = set()
        self.registry = ToolRegistry(
            (
                self._tool("echo", "never"),
                self._tool("slow", "never"),
                self._tool("broken", "never"),
                self._tool("refusing", "never"),
                self._tool("stuck", "never"),
                self._tool("danger", "ask"),
                Tool(
                    name="ask_user",
                    description="asks the user",
                    input_schema={"type": "object"},
                    approval="never",
                    timeout_seconds=TIMEOUT_SECONDS,
                    parse=parse_questions,
                    question=lambda input: Question(questions=tuple(input["questions"])),
                ),
                Tool(
                    name="confused",
                    description="does not know how to read, or what to ask",
                    input_schema={"type": "object"},
                    approval="never",
                    timeout_seconds=TIMEOUT_SECONDS,
                    parse=parse_carelessly,
                    question=lambda input: Question(questions=(input["questions"],)),
                ),
            )
        )

    def _tool(self, name: str, approval: Approval) -> Tool:
        async def run(input: Any, context: ToolContext) -> Any:
            return await self._run(name, input, context)

        return Tool(
            name=name,
            description=name,
            input_schema={"type": "object"},
            approval=approval,
            timeout_seconds=TIMEOUT_SECONDS,
            parse=parse,
            run=run,
        )

    async def _run(self, name: str, input: Any, context: ToolContext) -> Any:
        self._may_run(name, context)
        self.running += 1
        try:
            context.changed(f"{name}.txt", None, "new\n")
            await trio.sleep(0.7 if name == "slow" else 0.0)
            self._not_ended(name, context)
            while name == "stuck":
                await trio.sleep(0.5)
                self._not_ended(name, context)
        finally:
            self.running -= 1
        if name == "broken":
            raise ToolFailure("out of order")
        return {"success": False, "error": "no"} if name == "refusing" else {"echo": input}

    def _may_run(self, name: str, context: ToolContext) -> None:
        call = context.tool_call_id
        self._journal.note(f"tool {name} {call} runs")
        self._journal.require(call not in self.started, "P4", f"the tool call {call} runs twice")
        self.started.add(call)
        self._not_ended(name, context)
        if name == "danger":
            decided = self._committed.decided.get(call)
            allowed = decided == "resolved" or (decided is None and self._committed.always_allowed)
            self._journal.require(allowed, "P7", f"{call} runs though its approval is {decided}")

    def _not_ended(self, name: str, context: ToolContext) -> None:
        ended = context.turn_id in self._committed.ended
        self._journal.require(not ended, "T3", f"the tool {name} goes on after the end of {context.turn_id}")


def parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ToolInputError(f"not JSON: {error}") from None


def parse_carelessly(text: str) -> Any:
    if text == "{":
        raise KeyError(text)
    return {}


def parse_questions(text: str) -> Any:
    value = parse(text)
    if not isinstance(value, dict) or "questions" not in value:
        raise ToolInputError("questions: is required")
    return value
