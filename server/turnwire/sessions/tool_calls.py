"""Tool calls: from a finished input to a stored result, with the user asked in between where need be (P4-P7, S3).

Runs in the Session's task; each running tool has a task of its own, whose result comes back as a job. A result is taken
only while its call is the Turn's own and still running, so that nothing a tool does late changes anything.
"""

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import UNSET, structs

from turnwire.extensions import fault_of
from turnwire.sessions.growing import GrowingTool
from turnwire.sessions.mailbox import Chore
from turnwire.sessions.projection import Projection
from turnwire.sessions.turns import Turn
from turnwire.store.base import Operation, StoreUnavailable
from turnwire.tools.base import Tool, ToolContext, ToolInputError, ToolResult
from turnwire.tools.calls import call
from turnwire_protocol import lifecycle
from turnwire_protocol.parts import InteractionPart, ToolPart

if TYPE_CHECKING:
    from turnwire.sessions.loop import TurnLoop
    from turnwire.sessions.session import Session

_TOO_MUCH: Final = ToolResult(
    failed=True, error="the results of this Step are too large together: ask for less at once"
)

_log = logging.getLogger(__name__)


class ToolCalls:
    """The tool calls of one Session's running Turn; a part of the Session, in its task."""

    def __init__(self, session: "Session", loop: "TurnLoop") -> None:
        self._session = session
        self._loop = loop
        self._env = session.env
        self._scopes: dict[str, trio.CancelScope] = {}
        """What is under way for a call, by `tool_call_id`: the call itself, or the time that the user has for it."""

    # ------------------------------------------------------------------------------------------------------- starting

    def finish_input(self, part: GrowingTool) -> ToolPart:
        """The Tool once its input is complete: `ready`, or `failed` when it cannot be called like this (P5)."""
        tool = self._env.tools.get(part.tool_name)
        if tool is None:
            return part.terminal(f"there is no tool named {part.tool_name!r}")
        try:
            return part.ready(tool.parse(part.text))
        except ToolInputError as error:
            return part.terminal(str(error))
        except BaseException as error:  # noqa: BLE001 - a fault of the tool fails its call, not the Session
            name = _logged(tool, "failed to read its input", error)
            return part.terminal(f"the tool failed to read its input: {name}")

    async def start(self, turn: Turn, step_id: str) -> None:
        """Runs the Step's Tools, or asks the user first: one commit for all of them (P6). Raises StoreUnavailable."""
        projection = self._session.projection
        assert projection is not None, "the Step was just stored"
        ready = [part for part in projection.tools(step_id) if part.state == "ready"]
        draft = projection.draft()
        started, asked = [], []
        for part in ready:
            match self._start_one(draft, part):
                case ToolPart() as running:
                    started.append(running)
                case InteractionPart() as interaction:
                    asked.append((interaction, self._patience(self._tool(part))))
        if ready:
            await self._session.checkpoint(draft)
        for running in started:
            self._run(turn, running)
        for interaction, seconds in asked:
            self._session.nursery.start_soon(self._expire, interaction, seconds, self._scope(interaction.tool_call_id))
        await self.step_on(turn, step_id)

    def _start_one(self, draft: Projection, part: ToolPart) -> ToolPart | InteractionPart | None:
        """Moves a ready Tool on in the draft; gives the Part of what is now under way: its run, or its question."""
        tool = self._tool(part)
        if tool.question is None and not self._needs_approval(tool):
            running = _moved(part, "running")
            draft.replace(running)
            return running
        try:
            request = _request(tool, part)
        except BaseException as error:  # noqa: BLE001 - a fault of the tool fails its call, not the Session
            name = _logged(tool, "cannot say what it wants to know", error)
            draft.replace(structs.replace(_moved(part, "failed"), error=f"the tool failed: {name}"))
            return None
        draft.replace(_moved(part, "waiting-user"))
        interaction = InteractionPart(
            part_id=self._env.new_id("part"),
            sequence=1,
            step_id=part.step_id,
            interaction_id=self._env.new_id("ask"),
            interaction_type="approval" if tool.question is None else "question",
            tool_call_id=part.tool_call_id,
            status="pending",
            revision=draft.revision + 1,
            request=request,
        )
        draft.add(interaction)
        return interaction

    def _tool(self, part: ToolPart) -> Tool:
        tool = self._env.tools.get(part.tool_name)
        assert tool is not None, "only a known tool becomes ready"
        return tool

    def _needs_approval(self, tool: Tool) -> bool:
        return tool.approval == "ask" and self._session.record.config.approval_mode == "ask"

    # -------------------------------------------------------------------------------------------------------- running

    def _run(self, turn: Turn, part: ToolPart) -> None:
        self._session.nursery.start_soon(self._run_task, turn, part, self._scope(part.tool_call_id))

    async def _run_task(self, turn: Turn, part: ToolPart, scope: trio.CancelScope) -> None:
        context = ToolContext(
            session_id=self._session.session_id,
            turn_id=turn.turn_id,
            tool_call_id=part.tool_call_id,
            changed=turn.changes.changed,
        )
        with scope:
            await trio.lowlevel.checkpoint_if_cancelled()  # its Turn may be over before its task first runs (T3)
            result = await call(self._tool(part), part.input, context)
            self._session.mailbox.post(Chore(partial(self._ended, turn, part.tool_call_id, result)))

    async def _ended(self, turn: Turn, tool_call_id: str, result: ToolResult) -> None:
        """A call has a result: it is stored as a checkpoint of its own (S3)."""
        projection = self._session.projection
        part = projection.tool(tool_call_id) if projection is not None and self._is_running(turn) else None
        if projection is None or part is None or part.state != "running":
            return
        draft = projection.draft()
        draft.replace(_finished(part, result))
        if draft.exceeds(self._env.limits.held_message_bytes):
            draft = projection.draft()
            draft.replace(_finished(part, _TOO_MUCH))
        try:
            await self._session.checkpoint(draft)
        except StoreUnavailable as error:
            _log.error(
                "the result of tool call %(tool_call_id)s cannot be stored yet: %(error)s",
                {"tool_call_id": tool_call_id, "error": error},
            )
            self._session.post_later(partial(self._ended, turn, tool_call_id, result))
            return
        self._settle(tool_call_id)
        await self.step_on(turn, part.step_id)

    async def step_on(self, turn: Turn, step_id: Any) -> None:
        """Goes on with the Turn when every Tool of the Step has ended, as soon as the store lets it."""
        projection = self._session.projection
        if projection is None or not self._is_running(turn):
            return
        if all(part.state in lifecycle.TOOL.terminal for part in projection.tools(step_id)):
            try:
                await self._loop.step_done(turn, called_tools=True)
            except StoreUnavailable as error:
                # What has ended the last Tool is stored, and whoever did it was told so: the Turn must not hang on it.
                _log.error("turn %s cannot go on yet: %s", turn.turn_id, error)
                self._session.post_later(partial(self.step_on, turn, step_id))

    def _is_running(self, turn: Turn) -> bool:
        return self._loop.active is turn and turn.closing is None

    def _scope(self, tool_call_id: str) -> trio.CancelScope:
        """The scope of what begins for this call; what was under way for it before is over."""
        self._settle(tool_call_id)
        scope = self._scopes[tool_call_id] = trio.CancelScope()
        return scope

    def _settle(self, tool_call_id: str) -> None:
        """Nothing is under way for this call any more."""
        scope = self._scopes.pop(tool_call_id, None)
        if scope is not None:
            scope.cancel()

    def cancel_all(self) -> None:
        """The Turn is over: no tool goes on, none starts after, and nobody is waited for (T3)."""
        for tool_call_id in list(self._scopes):
            self._settle(tool_call_id)

    # ----------------------------------------------------------------------------------------------- what users decide

    async def allow(self, turn: Turn, draft: Projection, part: ToolPart, *also: Operation) -> None:
        """Commits the draft, in which an approval is resolved, and runs its Tool. Raises StoreUnavailable."""
        running = _moved(part, "running")
        draft.replace(running)
        await self._session.checkpoint(draft, *also)
        self._run(turn, running)

    async def answer(self, turn: Turn, draft: Projection, part: ToolPart, output: Any, *also: Operation) -> None:
        """Commits the draft, in which a question is resolved; the answers are the Tool's output."""
        draft.replace(_moved(part, "running"))
        await self._session.checkpoint(draft, *also)
        await self._ended(turn, part.tool_call_id, ToolResult(failed=False, output=output))

    async def refuse(self, turn: Turn, draft: Projection, part: ToolPart, error: str, *also: Operation) -> None:
        """Commits the draft, in which an Interaction ended without consent: its Tool fails and never runs (P7)."""
        draft.replace(structs.replace(_moved(part, "failed"), error=error))
        await self._session.checkpoint(draft, *also)
        self._settle(part.tool_call_id)
        await self.step_on(turn, part.step_id)

    def _patience(self, tool: Tool) -> float:
        """How many seconds the user has: a question as long as its tool says, and none longer than the limit."""
        limit = self._env.limits.interaction_seconds
        return min(math.inf if tool.question is None else tool.timeout_seconds, math.inf if limit is None else limit)

    async def _expire(self, interaction: InteractionPart, seconds: float, scope: trio.CancelScope) -> None:
        """Lets a pending Interaction expire, unless it is settled before."""
        with scope:
            await trio.sleep(seconds)
            self._session.mailbox.post(Chore(partial(self._session.interactions.expire, interaction.interaction_id)))


def _logged(tool: Tool, what: str, error: BaseException) -> str:
    """Logs the fault, and gives the name of its type. Raises what is meant for the server."""

    def tell(fault: BaseException) -> None:
        _log.error("the tool %s %s", tool.name, what, exc_info=fault)

    fault = fault_of(error, tell)
    tell(fault)
    return type(fault).__name__


def _moved(part: ToolPart, to: Any) -> ToolPart:
    return structs.replace(part, state=lifecycle.advance(lifecycle.TOOL, part.state, to))


def _finished(part: ToolPart, result: ToolResult) -> ToolPart:
    part = _moved(part, "failed" if result.failed else "completed")
    return structs.replace(
        part,
        output=UNSET if result.output is None and result.failed else result.output,
        error=result.error or "the tool failed" if result.failed else UNSET,
    )


def _request(tool: Tool, part: ToolPart) -> dict[str, Any]:
    """What the user is shown: exactly the input that will run, or the questions."""
    if tool.question is not None:
        return {"questions": list(tool.question(part.input).questions)}
    return {"tool_name": part.tool_name, "input": part.input}
