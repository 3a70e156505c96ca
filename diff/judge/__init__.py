"""The LLM grader: what it is asked, how its votes become one grade, and what it is bound to."""
