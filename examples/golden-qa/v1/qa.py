"""Answers questions. `answer_fn` is all that the cases know of it: put an agent, or a client, behind it.

This one looks its answers up, so that the example needs no key. With a real model it would be

    def answer_fn(question: str) -> str:
        messages = [{"role": "user", "content": question}]
        reply = Anthropic().messages.create(model="claude-sonnet-5", max_tokens=256, messages=messages)
        return reply.content[0].text
"""

from __future__ import annotations

ANSWERS = {
    "capital of australia": "Canberra",
    "symbol of gold": "Au",
    "days": "A leap year has 366 days.",
    "kilometres": "A mile is about 1.6 km.",
    "17 %": "17 % of 250 is 42.5.",
    "light": "Light travels at 299,792 km/s.",
    "sky": "Air scatters blue light more than red.",
}


def answer_fn(question: str) -> str:
    """The answer, or the question once more."""
    text = question.lower()
    return next((answer for key, answer in ANSWERS.items() if key in text), question)
