"""The hosts of model providers, which `--no-network` leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

PROVIDERS = (
    "api.anthropic.com",
    "api.openai.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
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
    "openrouter.ai",
)
"""Hosts that answer for models; `*` is any text without a dot."""
BASES = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "GOOGLE_GEMINI_BASE_URL",
    "LITELLM_PROXY_API_BASE",
    "OLLAMA_HOST",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
"""Environment variables that name another place for them, or the proxy they are behind."""


def model_hosts(named: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """What an agent may reach with `--no-network`.

    Args:
        named: the hosts of `[agent] network`.
        environment: whose base URLs of providers and proxies are followed.
    """
    found = [*PROVIDERS, *named]
    for name, value in environment.items():
        if name.upper() in BASES:
            try:
                host = urlsplit(value if "//" in value else f"//{value}").hostname
            except ValueError:
                continue
            if host:
                found.append(host)
    return sorted(set(found))
