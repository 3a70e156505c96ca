"""Pictures, documents and audio of a conversation as the blocks of a model's API.

They come in whatever shape they were recorded in, with their bytes as base64. A request with a type that its
API does not take is refused here: a model that was not shown what it is asked about answers something else.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

from replaydiff.replay.llm.base import ModelFailure
from replaydiff.replay.messages import is_media, media_type_of, missing_reason, read_content, replace_base64
from replaydiff.replay.model import Json, Message

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


class Attachment(NamedTuple):
    """A picture, document or recording with its bytes."""

    media_type: str
    data: str
    """Base64."""
    name: str


def pieces_of(message: Message) -> list[str | Attachment]:
    """Return the texts and media of a message, in order."""
    return _pieces(message.parts) if message.parts is not None else [message.text]


def pieces_of_result(result: Json) -> list[str | Attachment] | None:
    """Return the texts and media of a tool's result; None where it is no list of parts with media."""
    return _pieces(result) if isinstance(result, list) and any(map(is_media, result)) else None


def _pieces(parts: Json) -> list[str | Attachment]:
    pieces: list[str | Attachment] = []
    for part in parts if isinstance(parts, list) else [parts]:
        if not is_media(part):
            pieces.append(read_content(part).text)
        elif attachments := list(_attachments(part)):
            pieces += attachments
        else:
            raise ModelFailure(
                f"a picture or file of the conversation cannot be had ({missing_reason(part)})", passing=False
            )
    return [piece for piece in pieces if not isinstance(piece, str) or piece.strip()]


def _attachments(part: Json) -> Iterator[Attachment]:
    media: list[tuple[str, str, str]] = []

    def note(text: str, media_type: str, name: str) -> str:
        media.append((text, media_type, name))
        return text

    replace_base64(part, note)
    for text, media_type, name in media:
        data = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
        data += "=" * (-len(data) % 4)
        try:
            beginning = base64.b64decode(data[:64], validate=True)
        except (binascii.Error, ValueError):
            raise ModelFailure(
                "a picture or file of the conversation cannot be read: its base64 is broken", passing=False
            ) from None
        yield Attachment(media_type_of(beginning, media_type), data, name)


def as_anthropic_block(piece: str | Attachment) -> dict[str, Any]:
    """Return a text or an attachment as a block of the Messages API.

    Raises:
        ModelFailure: it takes none of this type.
    """
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    if piece.media_type not in (*_IMAGES, "application/pdf"):
        raise ModelFailure(f"the Messages API takes no {piece.media_type}", passing=False)
    source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
    return {"type": "image" if piece.media_type in _IMAGES else "document", "source": source}


def as_chat_part(piece: str | Attachment) -> dict[str, Any]:
    """Return a text or an attachment as a part of a message of chat completions."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    url = f"data:{piece.media_type};base64,{piece.data}"
    if piece.media_type in _IMAGES:
        return {"type": "image_url", "image_url": {"url": url}}
    if piece.media_type in _SOUNDS:
        return {
            "type": "input_audio",
            "input_audio": {"data": piece.data, "format": _SOUNDS[piece.media_type]},
        }
    return {"type": "file", "file": {"filename": piece.name or "file", "file_data": url}}
