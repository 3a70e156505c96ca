"""A refund desk: a LangGraph graph of a model and three tools. `run_agent` is the entrypoint."""

from __future__ import annotations

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from stand_in import StandIn

PROMPT = "You answer customers of a shop. Check the refund policy before you refund an order."


@tool
def get_order(order_id: str) -> dict[str, str | int]:
    """Look an order up."""
    number = int(order_id)
    return {"order_id": order_id, "status": "delivered", "days_ago": number % 50, "price": 10 + number % 90}


@tool
def check_refund_policy(days_ago: int) -> dict[str, bool | str]:
    """Find out whether an order may be refunded."""
    return {"refundable": days_ago <= 30, "reason": "Refunds are possible within 30 days of delivery."}


@tool
def refund(order_id: str, amount: int) -> str:
    """Pay an order's price back."""
    return f"{amount} euros will arrive within five days"


TOOLS = [get_order, check_refund_policy, refund]


def converse(text: str, model: str = "large") -> list[BaseMessage]:
    """Return all messages of a conversation that starts with `text`."""
    bound = StandIn(name=model).bind_tools(TOOLS)

    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [bound.invoke([SystemMessage(PROMPT), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile().invoke({"messages": [("user", text)]})["messages"]


def run_agent(text: str, model: str = "large") -> str:
    """Answer a customer."""
    return str(converse(text, model)[-1].content)
