"""Messages of every provider: the recogniser, the decode ladder, conversations, canonical arguments."""

from replaydiff.replay.messages.content import count_requests, read_call, read_calls, read_content
from replaydiff.replay.messages.conversation import Conversation, conversation, final_response, join_results
from replaydiff.replay.messages.decode import RAW, canonical_args, decode, parse, read_args
from replaydiff.replay.messages.media import is_media, media_type_of, missing_reason, replace_base64
from replaydiff.replay.messages.shapes import is_message, read_messages, read_text
from replaydiff.replay.messages.unread import likely_requests

__all__ = [
    "RAW",
    "Conversation",
    "canonical_args",
    "conversation",
    "count_requests",
    "decode",
    "final_response",
    "is_media",
    "is_message",
    "join_results",
    "likely_requests",
    "media_type_of",
    "missing_reason",
    "parse",
    "read_args",
    "read_call",
    "read_calls",
    "read_content",
    "read_messages",
    "read_text",
    "replace_base64",
]
