"""What must hold of a Session once everything has come to rest: in the store, for users, and of the model's calls."""

import msgspec

from simulation.faulty_store import FINAL_STATUS
from simulation.forks import all_messages
from simulation.model import Call
from simulation.tabs import SESSION, Map, Tab, is_terminal
from simulation.users import Users
from simulation.world import EPOCH_MS, World
from turnwire.sessions.snapshots import session_frame
from turnwire.store.base import Store, TurnRecord
from turnwire_protocol.codec import encode_json


class Rest:
    """The Session as the store has it, and the rules that it must fit."""

    def __init__(self, world: World, users: Users, calls: list[Call]) -> None:
        self._world = world
        self._users = users
        self._calls = calls
        self._require = world.journal.require
        self.messages: list[Map] = []
        self.turns: dict[str, TurnRecord] = {}

    async def check(self, store: Store) -> None:
        """Reads all of the Session from `store` and checks it."""
        self.messages = await all_messages(store, SESSION)
        for turn_id in {message["turn_id"] for message in self.messages if "turn_id" in message}:
            record = await store.turn(turn_id)
            self._require(record is not None, "T1", f"{turn_id} is not stored")
            if record is not None:
                self.turns[turn_id] = record
        kept, shown = await store.session(SESSION), await self._world.registry.get(SESSION)
        expected = session_frame(kept, executing=False)
        self._require(shown == expected, "T2", f"the Session is shown as {shown}, stored is {expected}")
        self._check_history()
        for turn in self.turns.values():
            self._check_turn(turn)
        self._check_prompts()
        self._check_instructions()
        self._check_answers()
        if not self._world.journal.broken:  # what follows relies on a sound history
            self._check_calls()
        for tab in self._world.tabs:
            self._check_tab(tab)
        await self._users.forks.check(store, self.messages)
        self._require(kept.archived_at is None, "T1", f"a prompt was accepted after all, and the Session is {kept}")
        require = self._require
        require(self._world.tools.running == 0, "T3", f"{self._world.tools.running} tools are still running")

    # -------------------------------------------------------------------------------------------------------- history

    def _check_history(self) -> None:
        require, messages = self._require, self.messages
        sequences = [message["sequence"] for message in messages]
        require(sequences == list(range(1, len(messages) + 1)), "M5", f"the sequences are {sequences}")
        times = [message["created_at"] for message in messages]
        require(times == sorted(times), "M5", f"the times of creation are {times}")
        part_ids = [part["part_id"] for message in messages for part in message["parts"]]
        require(len(part_ids) == len(set(part_ids)), "P1", f"a part_id is used twice: {part_ids}")
        for message in messages:
            self._world.committed.contents.check(message, "at rest")
            places = [part["sequence"] for part in message["parts"]]
            require(bool(places), "M10", f"{message['message_id']} is empty")
            require(places == sorted(set(places)), "P1", f"{message['message_id']} has its Parts at {places}")
            if message["role"] == "agent":
                open_parts = [part for part in message["parts"] if not is_terminal(part)]
                require(message["state"] == "done", "S7", f"{message['message_id']} is {message['state']} at rest")
                require(not open_parts, "S7", f"{message['message_id']} has {open_parts} at rest")

    def _check_turn(self, turn: TurnRecord) -> None:
        """A Turn ends once, and its reason stands in history once, if it had begun (M7, T2)."""
        require = self._require
        require(turn.status in FINAL_STATUS, "T1", f"{turn.turn_id} is {turn.status} at rest")
        codes = [
            part["code"]
            for message in self.messages
            if message.get("turn_id") == turn.turn_id
            for part in message["parts"]
            if part["type"] == "error"
        ]
        if turn.error is not None and turn.error.code == "runtime_interrupted":
            excused = self._world.deaths > 0 or self._world.committed.met_a_bug
            require(excused, "T3", f"{turn.turn_id} was interrupted though no process died")
        cut_short = sum(call.cut_short and call.complete for call in self._calls if call.turn_id == turn.turn_id)
        told = codes.count("length")
        fits = told == cut_short if turn.status == "completed" else told <= cut_short
        require(fits, "M7", f"{turn.turn_id} was cut short {cut_short} times, and has the error Parts {codes}")
        codes = [code for code in codes if code != "length"]
        if turn.error is None:
            require(turn.status == "completed", "T2", f"{turn.turn_id} is {turn.status} without a reason")
            require(codes == [], "M7", f"{turn.turn_id} is {turn.status} with the error Parts {codes}")
        elif turn.started_at is not None or turn.error.code == "runtime_interrupted":
            require(codes == [turn.error.code], "M7", f"{turn.turn_id} has {turn.error}, and the error Parts {codes}")
        else:
            require(codes == [], "T3", f"{turn.turn_id} never began and has the error Parts {codes}")

    # ---------------------------------------------------------------------------------------------------------- users

    def _check_prompts(self) -> None:
        require = self._require
        stored = self._texts("visible")
        for asked in self._users.asked:
            found = stored.pop(asked.text, [])
            require(len(found) <= 1, "S9", f"{asked.request_id} is stored {len(found)} times")
            for receipt in asked.receipts:
                places = [(m["message_id"], m["sequence"], m["turn_id"]) for m in found]
                promised = [(receipt.message_id, receipt.sequence, receipt.turn_id)]
                require(places == promised, "S9", f"{asked.request_id} was promised {promised}, stored is {places}")
        require(not stored, "S9", f"stored, but never asked: {list(stored)}")
        for result in self._users.results:
            record = self.turns.get(result.turn_id)
            told = (result.status, result.error and result.error.code)
            same = record is not None and told == (record.status, record.error and record.error.code)
            require(same, "T2", f"{result} was told of {record}")

    def _texts(self, visibility: str) -> dict[str, list[Map]]:
        """The User Messages of this visibility by their texts."""
        texts: dict[str, list[Map]] = {}
        for message in self.messages:
            if message["role"] == "user" and message["visibility"] == visibility:
                texts.setdefault(message["parts"][0]["text"], []).append(message)
        return texts

    def _check_instructions(self) -> None:
        """They alone are internal, and each is stored once where its giver was told so (C3, M4)."""
        require = self._require
        stored = self._texts("internal")
        internal = [message for message in self.messages if message["visibility"] == "internal"]
        require(len(internal) == sum(map(len, stored.values())), "M4", f"internal, but not of the user: {internal}")
        for instructed in self._users.instructed:
            found = stored.pop(instructed.text, [])
            require(len(found) <= 1, "C3", f"{instructed.text} is stored {len(found)} times")
            if instructed.message is not None:
                told = msgspec.json.decode(encode_json(instructed.message).text)
                require(found == [told], "C3", f"{told} was given, stored is {found}")
        require(not stored, "C3", f"stored, but nobody said it: {list(stored)}")

    def _check_answers(self) -> None:
        """The first answer counts, for good (P7)."""
        parts = {
            part["interaction_id"]: part
            for message in self.messages
            for part in message["parts"]
            if part["type"] == "interaction"
        }
        answered = [answer.interaction_id for answer in self._users.answered]
        self._require(len(answered) == len(set(answered)), "P7", f"two answers counted: {answered}")
        for answer in self._users.answered:
            part = parts.get(answer.interaction_id, {})
            stored = (part.get("resolved_by"), part.get("response"))
            self._require(stored == (answer.by, answer.response), "P7", f"{answer} was accepted, stored is {part}")

    # ----------------------------------------------------------------------------------------------------------- model

    def _check_calls(self) -> None:
        """What the model was asked is what history said, and what it said is what history says (C3, S2, S8)."""
        prompts = {m["parts"][0]["text"]: m for m in self.messages if m["role"] == "user"}
        previous: Call | None = None
        own = {m["turn_id"]: text for text, m in reversed(prompts.items()) if m["visibility"] == "visible"}
        for call in self._calls:
            read = [text for text in call.user_texts if text in prompts]  # besides summaries of what went before
            asked = [prompts[text] for text in read]
            self._require(len(read) == len(set(read)) > 0, "C3", f"the model read the prompts {read}")
            self._require(asked[-1].get("turn_id") == call.turn_id, "C3", f"{call.turn_id} read {read}")
            self._require(call.pairs_calls_with_results, "C3", f"a tool call has no result in {call.messages}")
            turns = [self.turns[message["turn_id"]] for message in asked if "turn_id" in message]
            waiting = [turn.turn_id for turn in turns if (turn.started_at or turn.finished_at or 0) > _ms(call.at)]
            self._require(not waiting, "C3", f"the model read prompts that were waiting: {waiting}")
            cancelled = [turn.turn_id for turn in turns if turn.status == "stopped" and turn.started_at is None]
            self._require(not cancelled, "T3", f"the model read prompts that were cancelled: {cancelled}")
            call.user_texts = [
                message["parts"][0]["text"] for message in asked if message.get("turn_id") == call.turn_id
            ]
            self._require(own[call.turn_id] in call.user_texts, "C3", f"{call.turn_id} read only {read}")
            if previous is not None:
                self._check_next(previous, call)
            previous = call
            self._check_text(call)
        self._check_order()
        self._check_joined(prompts)

    def _check_joined(self, prompts: dict[str, Map]) -> None:
        """What joins a Turn is read in it, or it does not complete (C3, M8)."""
        read = {call.turn_id: call.user_texts for call in self._calls}
        for text, message in prompts.items():
            turn_id = message.get("turn_id")
            if turn_id is not None and self.turns[turn_id].status == "completed":
                self._require(text in read.get(turn_id, ()), "C3", f"the last Step of {turn_id} did not read {text}")

    def _check_next(self, previous: Call, call: Call) -> None:
        """A Turn goes on only with results for the model to read, or with a prompt that has joined it (M8)."""
        if call.key == previous.key:
            self._require(call.attempt > previous.attempt, "T5", f"attempt {call.attempt} of {call.key}")
            self._require(call.user_texts == previous.user_texts, "T6", f"a retry of {call.key} read something else")
            return
        if call.turn_id == previous.turn_id:
            joined = call.user_texts != previous.user_texts
            self._require(joined or previous.tools > 0, "M8", f"{call.turn_id} went on after a Step without tools")
            self._require(previous.complete, "T5", f"{call.turn_id} went on after a Step that was not complete")

    def _check_text(self, call: Call) -> None:
        """A whole Step's text is stored as the model said it."""
        last = [other for other in self._calls if other.key == call.key][-1]
        if call is not last or not call.complete or self.turns[call.turn_id].status != "completed":
            return
        parts = [part for message in self.messages for part in message["parts"] if part.get("step_id") == call.key]
        texts = [part["text"] for part in parts if part["type"] in ("text", "reasoning")]
        said = list(call.said.values())
        if len(texts) > len(said):  # a text goes on in the next Message where one is full (M8)
            texts, said = ["".join(texts)], ["".join(said)]
        if said or texts != [""]:  # the emptied stand-in of a failed attempt may stay where the next one says nothing
            self._require(texts == said, "S2", f"{call.key} said {said}, stored is {texts}")

    def _check_order(self) -> None:
        """Prompts are answered in the order in which they were stored (T1)."""
        first = {m["turn_id"]: m["sequence"] for m in reversed(self.messages) if m["role"] == "user" and "turn_id" in m}
        for tab in self._world.tabs:
            order = [first.get(turn_id, 0) for turn_id in tab.started]
            self._require(order == sorted(order), "T1", f"{tab.name} saw Turns start in the order {order}")

    # ------------------------------------------------------------------------------------------------------------ tabs

    def _check_tab(self, tab: Tab) -> None:
        for turn_id, finishes in tab.finishes.items():
            self._require(len(finishes) == 1, "T1", f"{tab.name}: {turn_id} finished {len(finishes)} times")
        if not tab.live:
            return
        view = tab.view
        messages = [m for m in self.messages if tab.internal or m["visibility"] == "visible"]
        shown = view.messages
        place = shown[0]["sequence"] if shown else 1
        expected = [message for message in messages if message["sequence"] >= place]
        if shown != expected:
            self._world.journal.blame("W4", f"{tab.name} shows {shown}, stored is {expected}")
        self._require(view.total == len(self.messages), "M3", f"{tab.name} has the total {view.total}")
        at_rest = (view.turn, view.queue, view.interactions)
        self._require(at_rest == (None, [], []), "K1", f"{tab.name} shows {at_rest} at rest")
        self._require(not tab.unfinished, "T1", f"{tab.name} never saw the finish of {tab.unfinished}")


def _ms(seconds: float) -> int:
    return EPOCH_MS + round(seconds * 1000)
