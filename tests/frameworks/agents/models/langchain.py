"""A chat model of LangChain that makes the calls which the user's message lists."""

import json
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """Makes the calls that the user's message lists, then repeats what the tools answered."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[one for one in tools if isinstance(one, dict)], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        rounds = json.loads(next(one.content for one in messages if one.type == "human"))
        done = sum(1 for one in messages if one.type == "ai")
        if done < len(rounds):
            calls = [
                {"name": name, "args": args, "id": f"call_{done}_{index}", "type": "tool_call"}
                for index, (name, args) in enumerate(rounds[done])
            ]
            message = AIMessage(content="", tool_calls=calls)
        else:
            answers = [one for one in messages if isinstance(one, ToolMessage)]
            seen = [[one.name, one.content, one.status, one.artifact] for one in answers]
            message = AIMessage(content=json.dumps(seen))
        return ChatResult(generations=[ChatGeneration(message=message)])


model = Scripted()
