"""The answer: how what the model says in a running Turn becomes Parts, Messages and Mutations (S1-S4, S8).

Runs in the Session's task. What comes from a call that is no longer the current one is dropped, so nothing that hangs
can hold a Turn open. How calls begin and fail is `attempts`, what tools do is `tool_calls`, and when Turns start and
finish is `loop`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelError, StepEnd
from turnwire.sessions.attempts import unstorable
from turnwire.sessions.growing import Growing, GrowingText, GrowingTool, json_bytes
from turnwire.sessions.projection import Projection
from turnwire.sessions.steps import Step
from turnwire.sessions.turns import CallEnded, ModelCall, Turn, error_part
from turnwire.store.base import StoreUnavailable
from turnwire.tools.base import INPUT_BYTES
from turnwire_protocol.mutations import DeltaMutation, PartMutation, TurnError
from turnwire_protocol.parts import AgentPart, type_of

DELTA_CHARACTERS = 64 * 1024
"""The most text that one delta carries; what a provider sends at once beyond it becomes several (W10)."""

BESIDE_BYTES = 256 * 1024
"""The most JSON bytes of text that a Step adds to a full Message while a Tool in it is open (W10)."""

CALLS = 128
"""The most tools that one Step calls: every result is a checkpoint of the whole Message."""

TOOL_NAME_CHARACTERS = 200
"""How much of a tool name that the model made up is kept."""

TOO_LONG = TurnError("length", "The answer ends here because it reached the model's output limit.")

if TYPE_CHECKING:
    from turnwire.sessions.loop import TurnLoop
    from turnwire.sessions.session import Session


class Answer:
    """What the model says in the Turns of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session", loop: "TurnLoop") -> None:
        self._session = session
        self._loop = loop
        self._env = session.env

    async def handle_events(self, events: Sequence[tuple[object, object]]) -> None:
        """Applies what the current model call produced, and publishes what that changes (S1)."""
        for source, event in events:
            turn = self._loop.active
            call = turn.call if turn is not None and turn.closing is None else None
            if turn is None or call is None or call is not source:
                continue  # of a call that was stopped or has failed already
            await self._handle_event(turn, call, event)

    async def _handle_event(self, turn: Turn, call: ModelCall, event: object) -> None:
        try:
            try:
                await self._apply(turn, call, event)
            except ModelError as error:
                await self._loop.attempts.fail(turn, call, error)
        except StoreUnavailable as error:
            await self._loop.close_turn(turn, "failed", unstorable(error))

    async def _apply(self, turn: Turn, call: ModelCall, event: object) -> None:
        """Raises ModelError when the call has failed, StoreUnavailable."""
        step = call.step
        match event:
            case BlockStart():
                step.start(event)
                if event.kind == "tool":
                    await self._begin_tool(turn, step, event)
            case BlockDelta():
                block = step.block(event)
                for start in range(0, len(event.text), DELTA_CHARACTERS):
                    await self._append(turn, step, block, event.text[start : start + DELTA_CHARACTERS])
            case BlockEnd():
                part = step.end(event)
                if isinstance(part, GrowingTool):
                    self._finish_ended(turn, step)
            case StepEnd():
                step.finish(event)
            case CallEnded(error=None):
                await self._end_step(turn, call)
            case CallEnded(error=ModelError() as error):
                raise error
            case _:
                raise ModelError("malformed_stream", f"unknown model event {type(event).__name__}", retryable=False)

    async def _append(self, turn: Turn, step: Step, block: BlockStart, text: str) -> None:
        self._finish_ended(turn, step)
        part = step.part(block.block)
        if isinstance(part, GrowingTool):
            self._count_input(step, text)
        elif self._is_full(text):
            await self._roll_over(turn, step)
            part = None
        else:
            self._count_beside(step, text)
        if part is None:
            await self._begin_text(turn, step, block, text)
            return
        projection = self._projection
        projection.append(part, text)
        session = self._session
        tool_call_id = part.tool_call_id if isinstance(part, GrowingTool) else UNSET
        session.publish(
            DeltaMutation(
                **session.envelope(),
                type="tool_input" if block.kind == "tool" else block.kind,
                message_id=projection.message_id,
                revision=projection.bump(),
                turn_id=turn.turn_id,
                part_id=part.part_id,
                delta=text,
                tool_call_id=tool_call_id,
            )
        )

    @property
    def _projection(self) -> Projection:
        projection = self._session.projection
        assert projection is not None, "a Part that grows is in the projection"
        return projection

    def _is_full(self, text: str) -> bool:
        projection = self._session.projection
        if projection is None or projection.has_open_tool:
            return False
        return projection.json_bytes + json_bytes(text) > self._env.limits.message_bytes

    def _count_beside(self, step: Step, text: str) -> None:
        """Counts text that goes into a full Message, which an open Tool keeps from being closed (W10)."""
        projection = self._session.projection
        if projection is None or projection.json_bytes <= self._env.limits.message_bytes:
            return
        step.beside_bytes += json_bytes(text)
        if step.beside_bytes > BESIDE_BYTES:
            raise ModelError("invalid_request", "the model says more beside its tool calls than one message holds")

    def _count_input(self, step: Step, text: str) -> None:
        # What is no JSON is kept as text, where a character may take six bytes: then half of them count.
        step.input_bytes += max(len(text.encode()), json_bytes(text) // 2)
        if step.input_bytes > INPUT_BYTES:
            raise ModelError(
                "invalid_request", f"the model's tool inputs are longer than {INPUT_BYTES} bytes in one step"
            )

    def _finish_ended(self, turn: Turn, step: Step) -> None:
        """Says what became of Parts whose block has ended.

        For a text not at the end of its block, but once more follows: mostly the Step ends with it, and then the
        committed Message says so in any case, so that a plain answer does not travel once more.
        """
        for part in step.take_ended():
            if isinstance(part, GrowingTool):
                finished = self._loop.tools.finish_input(part)
                self._projection.replace(finished)
                self._publish_part(turn, finished)
            elif isinstance(part, GrowingText):
                part.finish()
                self._publish_part(turn, part.part())

    async def _begin_text(self, turn: Turn, step: Step, block: BlockStart, text: str) -> None:
        """The first text of a block becomes a Part."""
        assert block.kind != "tool"
        draft = self._draft(turn)
        part = draft.begin_text(part_id=self._env.new_id("part"), step_id=step.step_id, kind=block.kind, text=text)
        await self._begin(turn, draft, part)
        step.bind(block.block, part)

    async def _begin_tool(self, turn: Turn, step: Step, block: BlockStart) -> None:
        """A tool call becomes a Part at once, so that one sees which tool the model is about to call (P5)."""
        self._finish_ended(turn, step)
        if step.calls > CALLS:
            raise ModelError("invalid_request", f"the model calls more than {CALLS} tools at once")
        if self._is_full(""):
            await self._roll_over(turn, step)
        draft = self._draft(turn)
        part = draft.begin_tool(
            part_id=self._env.new_id("part"),
            step_id=step.step_id,
            tool_call_id=self._env.new_id("call"),
            tool_name=(block.tool_name or "")[:TOOL_NAME_CHARACTERS],
        )
        await self._begin(turn, draft, part)
        step.bind(block.block, part)

    def _draft(self, turn: Turn) -> Projection:
        session = self._session
        return session.new_projection(turn.turn_id) if session.projection is None else session.projection.draft()

    async def _begin(self, turn: Turn, draft: Projection, part: Growing) -> None:
        """Shows a new Part. With a Message's first one its row is made (M10); a stand-in is replaced in the store, too,
        because only a committed Message can take a Part away (T6).
        """
        session = self._session
        if session.projection is not None and not session.projection.stand_in:
            session.projection = draft
            self._publish_part(turn, part.part())
        else:
            await session.checkpoint(draft)

    def _publish_part(self, turn: Turn, part: AgentPart) -> None:
        session = self._session
        projection = self._projection
        session.publish(
            PartMutation(
                **session.envelope(),
                type=type_of(part),
                message_id=projection.message_id,
                revision=projection.bump(),
                turn_id=turn.turn_id,
                part_id=part.part_id,
                part=part,
            )
        )

    async def _end_step(self, turn: Turn, call: ModelCall) -> None:
        """The model has said all of this Step: it is stored as a whole, and its tools start (S2, S3)."""
        step = call.step
        if step.reason == "content_filter":
            raise ModelError("content_filter", "the model's answer was withheld by a content filter")
        self._session.compaction.reported(step.input_tokens or call.input_tokens)
        turn.call = None
        if step.reason == "length":
            await self._session.checkpoint(self._cut_short(turn))
        if not step.calls:
            await self._loop.step_done(turn, called_tools=False)
            return
        self._finish_ended(turn, step)
        await self._session.checkpoint(self._projection.draft().with_texts_done())
        await self._loop.tools.start(turn, step.step_id)

    def _cut_short(self, turn: Turn) -> Projection:
        """A draft that says that the model had to end before it was done: no failure of the Turn (M7)."""
        draft = self._draft(turn).with_texts_done()
        draft.add(error_part(self._env, TOO_LONG))
        return draft

    async def _roll_over(self, turn: Turn, step: Step) -> None:
        """Closes a full Message; the Turn's later output opens the next one (W10)."""
        session = self._session
        await session.close_message()
        step.roll_over()
