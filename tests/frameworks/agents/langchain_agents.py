"""Agents of LangChain and LangGraph, of every make."""

import json
import subprocess
import sys
from typing import Annotated, Any

from canary import ran
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent
from langgraph.types import Command
from models.langchain import Scripted
from pydantic import BaseModel


@tool
def get_order(order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


@tool
async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[str]]:
    """Search."""
    return ran(f"search {query}"), ["real"]


@tool
def with_state(
    question: str, state: Annotated[dict, InjectedState], key: Annotated[str, InjectedToolArg] = ""
) -> str:
    """A tool that is also given the state of the graph."""
    return ran(f"with_state {question}")


class Refund(BaseTool):
    """A tool that is a class."""

    name: str = "refund"
    description: str = "Refund an order."

    def _run(self, order_id: str, amount: float = 1.0) -> str:
        return ran(f"refund {order_id}")


class Special(Refund):
    """A subclass that overrides it, and another entry."""

    name: str = "special"

    def _run(self, order_id: str, amount: float = 1.0) -> str:
        return ran(f"special {order_id}")

    async def _arun(self, order_id: str, amount: float = 1.0) -> str:
        return ran(f"special, async {order_id}")


class Invoked(Refund):
    """A subclass that does its work in `invoke`."""

    name: str = "invoked"

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        text = ran("invoked")
        return ToolMessage(content=text, tool_call_id=input["id"], name=self.name)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        return self.invoke(input)


def plain(order_id: str) -> str:
    """A function that ToolNode makes a tool of."""
    return ran(f"plain {order_id}")


def closure_tools(prefix: str) -> list[Any]:
    """Tools that exist only in a closure."""

    def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"{prefix} {order_id}")

    async def inner_async(order_id: str) -> str:
        """Look something up."""
        return ran(f"{prefix}, async {order_id}")

    return [
        StructuredTool.from_function(inner, name="inner"),
        StructuredTool.from_function(coroutine=inner_async, name="inner_async"),
    ]


@tool
def strict(order_id: str) -> str:
    """A tool whose errors the model may see."""
    raise ToolException(ran(f"strict {order_id}"))


strict.handle_tool_error = True
SYNC = [get_order, search, with_state, Refund(), Special(), Invoked(), plain, strict]

sync_agent = create_agent(Scripted(), SYNC)


def make_agent() -> Any:
    """An agent with async tools, made in a factory."""
    return create_agent(Scripted(), [*SYNC, cancel_order, *closure_tools("shop")])


def make_react() -> Any:
    """The same in LangGraph's older form, with errors that the model sees."""
    return create_react_agent(Scripted(), ToolNode([*SYNC, cancel_order], handle_tool_errors=True))


def make_graph() -> Any:
    """A graph with a node of the user's own, which is async and calls tools by hand."""
    model = Scripted()

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def act(state: MessagesState) -> Any:
        by_name = {one.name: one for one in (get_order, cancel_order, *closure_tools("graph"))}
        messages = []
        for call in state["messages"][-1].tool_calls:
            output = await by_name[call["name"]].ainvoke(call["args"])
            messages.append(ToolMessage(content=repr(output), tool_call_id=call["id"], name=call["name"]))
        return {"messages": messages}

    def after(state: MessagesState) -> str:
        return "act" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("act", act)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", after)
    graph.add_edge("act", "ask")
    return graph.compile()


def by_hand(text: str) -> str:
    """Every way to call a tool without an agent; the tools are made during the trial."""
    one = closure_tools("hand")[0]
    answers = [
        one.invoke({"order_id": "7"}),
        one.run({"order_id": "7"}),
        one._run(order_id="7", config={}),
        one.func("7"),
        one.func(order_id="7"),
        one.batch([{"order_id": "7"}])[0],
        get_order.invoke({"order_id": "7"}),
        Refund().invoke({"order_id": "7"}),
        Refund().run({"order_id": "7"}),
        Refund()._run("7"),
        one.model_copy(update={"name": "copy"}).invoke({"order_id": "7"}),
    ]
    return json.dumps(answers)


CHILD = """
import sys; sys.path.insert(0, "."); import langchain_agents as one
print(one.get_order.invoke({"order_id": "7"}))
"""


def in_a_child(text: str) -> str:
    """A tool that a Python process of its own calls."""
    done = subprocess.run([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def hosted(text: str) -> Any:
    """A model that is given a tool which its provider runs."""
    model = Scripted().bind(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    return str(model.invoke(text).content)


def make_hosted() -> Any:
    return create_agent(Scripted(), [get_order, {"type": "web_search_20250305", "name": "web_search"}])


def make_command() -> Any:
    """An agent with a tool that changes the state of the graph."""

    @tool
    def hand_over(to: str) -> Command:
        """Hand over."""
        return Command(
            update={"messages": [ToolMessage("handed over", tool_call_id="call_0_0", name="hand_over")]}
        )

    return create_agent(Scripted(), [hand_over])


class Answer(BaseModel):
    """The shape of an answer, which the model gives as if it called a tool."""

    text: str


def make_structured() -> Any:
    return create_agent(Scripted(), [get_order], response_format=ToolStrategy(Answer))
