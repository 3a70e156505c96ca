"""Takes the place of a model, so that the example needs no key: rules that read the conversation.

The large one follows the prompt. The small one skips the policy when a customer is in a hurry.
"""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class StandIn(BaseChatModel):
    """A chat model of LangChain."""

    name: str = "large"

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(**kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        text = next(str(message.content) for message in messages if message.type == "human")
        results = {message.name: message.content for message in messages if isinstance(message, ToolMessage)}
        content, call = self._next(text.lower(), results)
        calls = [{"name": call[0], "args": call[1], "id": f"call_{len(messages)}"}] if call else []
        size = sum(len(str(message.content)) for message in messages) // 4
        usage = {"input_tokens": size, "output_tokens": 20, "total_tokens": size + 20}
        message = AIMessage(content=content, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _next(self, text: str, results: dict[Any, Any]) -> tuple[str, tuple[str, dict[str, Any]] | None]:
        """Return what to say, and the tool to call."""
        order_id = re.search(r"\d{4}", text)
        if order_id is None:
            return "I can look up and refund orders. Which order is it about?", None
        if "get_order" not in results:
            return "", ("get_order", {"order_id": order_id[0]})
        order = json.loads(results["get_order"])
        if "refund" in results:
            return f"Order {order_id[0]} is refunded: {results['refund']}.", None
        if "refund" not in text:
            return f"Order {order_id[0]} was {order['status']} {order['days_ago']} days ago.", None
        hurried = self.name == "small" and "now" in text
        if "check_refund_policy" not in results and not hurried:
            return "", ("check_refund_policy", {"days_ago": order["days_ago"]})
        if not hurried and not json.loads(results["check_refund_policy"])["refundable"]:
            return f"Order {order_id[0]} cannot be refunded: it was delivered more than 30 days ago.", None
        return "", ("refund", {"order_id": order_id[0], "amount": order["price"]})
