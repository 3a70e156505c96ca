"""Find a table for a guest: one decision of a model, bound to a JSON Schema, and one look-up."""

import json
import sys

from openai import OpenAI

TEMPERATURE = 0.3
SYSTEM = "You take bookings for a restaurant. Write down the name, the day on which the guests come, and how many people come."
EXAMPLES = {
    "Good evening, a table for 6 on Tuesday for Lindqvist.": ("Lindqvist", "Tuesday", 6),
    "Our plans for Sunday fell through. Could we have Thursday instead? We are 3, my name is Adams.": ("Adams", "Thursday", 3),
    "Park here. 9 were invited, 5 will come. Saturday!": ("Park", "Saturday", 5),
}  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DECISION = {
    "name": {"type": "string", "maxLength": 16},
    "day": {"enum": DAYS},
    "people": {"type": "integer", "minimum": 1, "maximum": 20},
}


def find_table(day: str, people: int) -> str:
    """Return the first table that is large enough, and its hour."""
    return f"table {(people + 1) // 2} at {18 + DAYS.index(day) % 3}:00"


def run_agent(text: str) -> str:
    """Answer a guest."""
    messages = [{"role": "system", "content": SYSTEM}]
    for request, decision in EXAMPLES.items():
        answer = json.dumps(dict(zip(DECISION, decision, strict=True)))
        messages += [{"role": "user", "content": request}, {"role": "assistant", "content": answer}]
    schema = {"type": "object", "properties": DECISION, "required": [*DECISION]}
    reply = OpenAI().chat.completions.create(
        model="smollm2",
        messages=[*messages, {"role": "user", "content": text}],
        temperature=TEMPERATURE,
        max_tokens=80,
        response_format={"type": "json_schema", "json_schema": {"name": "booking", "schema": schema}},
    )
    name, day, people = json.loads(reply.choices[0].message.content).values()
    return f"{name}, we have {find_table(day, people)} on {day} for {people}."


if __name__ == "__main__":  # production: answers requests from stdin, and logs each as a trace
    look_up = find_table
    for line in sys.stdin:
        calls = []

        def find_table(day: str, people: int, calls: list[dict] = calls) -> str:
            """Log the call, too."""
            calls += [
                {"name": "find_table", "args": {"day": day, "people": people}, "result": look_up(day, people)}
            ]
            return calls[-1]["result"]

        request = json.loads(line)
        answer = run_agent(request["input"])
        print(json.dumps({**request, "final_response": answer, "tool_calls": calls}), flush=True)
