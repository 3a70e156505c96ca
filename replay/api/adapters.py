"""Write the adapter with which `replay` calls an agent that no entrypoint names: a route's.

The agent's own code stays as it is. An adapter imports that of each revision; see docs/frameworks/adapter.md.
"""

from __future__ import annotations

import re

from replaydiff.replay.api.agent_code import Service

FILE = "replay_adapter.py"


def adapter_of_service(service: Service) -> str | None:
    """Return an adapter that calls a route in this process; None where what it reads is not known."""
    if service.text is None:
        return None
    head = _head(service.location)
    field = service.response.removeprefix("$.") if service.response else None
    wait, define = ("await ", "async def") if service.is_async else ("", "def")
    if service.framework == "fastapi" and service.model is not None:
        taken = "" if field is None else f".{field}" if service.returns_model else f'["{field}"]'
        return (
            f"{head}from {service.module} import {', '.join(sorted((service.model, service.name)))}\n\n\n"
            f"{define} run_agent(text):\n"
            f"    answer = {wait}{service.name}({service.model}({service.text}=text))\n"
            f"    return answer{taken}\n"
        )
    if field is None or not re.fullmatch(r"[\w/<>:.{}-]+", service.path):
        return None
    if service.framework == "flask" and service.app:
        module, _, application = service.app.partition(":")
        imports = {f"from {module} import {application.removesuffix('()')}\n"}
        imports |= {f"from {service.module} import {service.name}\n"}
        return (
            f"{head}{''.join(sorted(imports))}\napplication = {application}\n\n\ndef run_agent(text):\n"
            f'    body = {{"{service.text}": text}}\n'
            f'    with application.test_request_context("{service.path}", method="POST", json=body):\n'
            f"        answer = application.make_response(application.ensure_sync({service.name})())\n"
            f'        return answer.get_json()["{field}"]\n'
        )
    if service.framework in ("django", "rest_framework") and re.fullmatch(r"\w+(\.\w+)*", service.app):
        called = f"{service.name}.as_view()" if service.is_class else service.name
        answer = f"({wait}{called}(request))"
        content = (
            f"{answer}.data" if service.framework == "rest_framework" else f"json.loads({answer}.content)"
        )
        return (
            f"{head}import json\nimport os\n\nimport django\nfrom django.test import RequestFactory\n\n"
            f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{service.app}")\n'
            "django.setup()\n"
            f"from {service.module} import {service.name}\n\n\n"
            f"{define} run_agent(text):\n"
            f'    body = json.dumps({{"{service.text}": text}})\n'
            '    request = RequestFactory().post("/", body, "application/json")\n'
            f'    return {content}["{field}"]\n'
        )
    return None


def _head(location: str) -> str:
    """Return the docstring; the name of a file is anybody's text."""
    shown = re.sub(r"[^\w/.: -]", "?", location)
    return f'"""Written by `replay init`: how replay calls {shown}. Change it as you need."""\n\n'
