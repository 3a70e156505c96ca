"""The destinations of model APIs, which an agent may always reach: replaying it means asking its model."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from replaydiff.replay.destination import Destination

HOSTS = (
    "api.anthropic.com",
    "api.openai.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "*-aiplatform.googleapis.com",
    "oauth2.googleapis.com",
    "bedrock-runtime.*.amazonaws.com",
    "api.mistral.ai",
    "api.cohere.com",
    "api.groq.com",
    "api.together.xyz",
    "api.fireworks.ai",
    "api.deepseek.com",
    "api.x.ai",
    "api.perplexity.ai",
    "openrouter.ai",
)
"""Hosts of model providers, reached at port 443; `*` is any text without a dot."""
BASES = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_AI_INFERENCE_ENDPOINT",
    "COHERE_BASE_URL",
    "CO_API_URL",
    "DEEPSEEK_BASE_URL",
    "FIREWORKS_BASE_URL",
    "GEMINI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GROQ_BASE_URL",
    "LITELLM_BASE_URL",
    "LITELLM_PROXY_API_BASE",
    "LLM_BASE_URL",
    "LMSTUDIO_BASE_URL",
    "MISTRAL_BASE_URL",
    "MODEL_BASE_URL",
    "OLLAMA_BASE_URL",
    "OLLAMA_HOST",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "OPENROUTER_BASE_URL",
    "TOGETHER_BASE_URL",
    "VLLM_BASE_URL",
    "XAI_BASE_URL",
)
"""Environment variables that name another address of a model. A variable of another name may be that of a
tool's service, so it opens nothing; [world] network does."""
PORTS = {"http": 80, "https": 443}


def model_destinations(environment: Mapping[str, str]) -> list[Destination]:
    """Return where an agent reaches its models.

    Args:
        environment: of the agent, whose base URLs of providers are followed.
    """
    destinations = {Destination(host, 443) for host in HOSTS}
    for name in BASES:
        value = environment.get(name, "")
        try:
            parts = urlsplit(value if "//" in value else f"http://{value}")
            host, port = parts.hostname, parts.port or PORTS.get(parts.scheme)
        except ValueError:
            continue
        if host and port:
            destinations.add(Destination(host, port))
    return sorted(destinations)
