"""From the clone of an agent's repository to the first answer: ten agents, each as somebody would have written it."""
