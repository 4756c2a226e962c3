"""Prompts: from a client's input to a stored User Message, and the receipts that make a resend harmless (S9, T1)."""

import hashlib

import msgspec
from msgspec import Struct, UnsetType, structs

from turnwire.store.base import RequestRecord, SaveRequest
from turnwire_protocol.codec import encode_json
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import Receipt
from turnwire_protocol.messages import UserMessage, Visibility
from turnwire_protocol.parts import (
    ContextInput,
    ContextPart,
    DataInput,
    DataPart,
    FileInput,
    FilePart,
    PartInput,
    TextInput,
    TextPart,
    UserPart,
)


class PromptOptions(Struct, kw_only=True, frozen=True):
    """The conditions of a prompt (T1)."""

    if_idle: bool = False
    expected_turn_id: str | None = None


class Prompt(Struct, frozen=True):
    """What a client wants said, under an id of its own choice."""

    parts: tuple[PartInput, ...]
    client_request_id: str
    part_ids: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Tells whether a resend has the same body (S9)."""
        return digest_of(self.parts)

    def message(
        self,
        *,
        session_id: str,
        turn_id: str | UnsetType,
        message_id: str,
        sequence: int,
        now: int,
        max_bytes: int,
        visibility: Visibility = "visible",
    ) -> UserMessage:
        """The User Message of this prompt.

        Raises RequestError `too_large` when its JSON would be longer than `max_bytes`.
        """
        message = UserMessage(
            message_id=message_id,
            session_id=session_id,
            turn_id=turn_id,
            sequence=sequence,
            revision=1,
            visibility=visibility,
            created_at=now,
            updated_at=now,
            parts=tuple(
                _stored(part, part_id, number)
                for number, (part, part_id) in enumerate(zip(self.parts, self.part_ids, strict=True), start=1)
            ),
        )
        size = len(encode_json(message).text)
        if size > max_bytes:
            raise RequestError("too_large", f"parts: {size} bytes as JSON, the limit is {max_bytes}", field="parts")
        return message


def check_input(parts: tuple[PartInput, ...] | None) -> None:
    """Refuses what says nothing (T1). Raises RequestError `invalid_argument`."""
    if not any(map(_says_something, parts or ())):
        raise RequestError("invalid_argument", "parts: the prompt is empty", field="parts")


def _says_something(part: PartInput) -> bool:
    match part:
        case TextInput():
            return bool(part.text.strip())
        case ContextInput():
            return bool(part.context.strip())
        case _:
            return True


def accepted_answer(prompt: Prompt, receipt: Receipt, session_id: str, now: int) -> SaveRequest:
    """Remembers the receipt, in the same commit as the Message it speaks of."""
    return SaveRequest(
        RequestRecord(
            session_id=session_id,
            client_request_id=prompt.client_request_id,
            digest=prompt.digest,
            answer=encode_json(receipt),
            created_at=now,
        )
    )


def receipt_of(known: RequestRecord, prompt: Prompt) -> Receipt:
    """The receipt of a prompt that was accepted before. Raises RequestError `conflict` for another body (S9)."""
    if known.digest != prompt.digest:
        raise RequestError("conflict", "client_request_id: it was used for another prompt", field="client_request_id")
    return structs.replace(msgspec.json.decode(known.answer.text, type=Receipt), outcome="duplicate")


def _stored(part: PartInput, part_id: str, sequence: int) -> UserPart:
    match part:
        case TextInput():
            return TextPart(part_id=part_id, sequence=sequence, text=part.text)
        case ContextInput():
            return ContextPart(part_id=part_id, sequence=sequence, tag=part.tag, context=part.context)
        case FileInput():
            return FilePart(
                part_id=part_id, sequence=sequence, url=part.url, media_type=part.media_type, filename=part.filename
            )
        case DataInput():
            return DataPart(
                part_id=part_id, sequence=sequence, data_type=part.data_type, data=part.data, data_id=part.data_id
            )


def digest_of(body: object) -> str:
    """Tells whether two requests have the same body, in whatever order their maps have it."""
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
