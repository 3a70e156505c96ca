"""Agents of LlamaIndex."""

import json

from canary import ran
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.tools.types import AsyncBaseTool, ToolOutput
from llama_index.core.workflow import Context
from models.llama_index import Scripted


def get_order(order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


async def cancel_order(ctx: Context, order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Refund(AsyncBaseTool):
    """A tool that is a class."""

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name="refund", description="Refund an order.")

    def call(self, input: str) -> ToolOutput:  # noqa: A002
        return ToolOutput(tool_name="refund", content=ran("refund"), raw_input={}, raw_output=None)

    async def acall(self, input: str) -> ToolOutput:  # noqa: A002
        return self.call(input)


def make() -> FunctionAgent:
    def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"inner {order_id}")

    tools = [
        get_order,
        FunctionTool.from_defaults(async_fn=cancel_order),
        Refund(),
        FunctionTool.from_defaults(inner),
    ]
    return FunctionAgent(name="shop", description="The shop.", tools=tools, llm=Scripted(), streaming=False)


async def run_agent(text: str) -> str:
    return str(await make().run(user_msg=text))


async def run_workflow(text: str) -> str:
    front = FunctionAgent(
        name="front", description="Front.", llm=Scripted(), can_handoff_to=["shop"], streaming=False
    )
    workflow = AgentWorkflow(agents=[front, make()], root_agent="front")
    return str(await workflow.run(user_msg=text))


async def by_hand(text: str) -> str:
    one = FunctionTool.from_defaults(get_order)
    answers = [one(order_id="7"), one.call(order_id="7"), await one.acall("7"), Refund()("8")]
    return json.dumps([str(answer) for answer in answers])
