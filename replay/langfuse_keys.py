"""Access to one Langfuse project, read from the environment as Langfuse's own SDK reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from replaydiff.replay.errors import CredentialsError

DEFAULT_URL = "https://cloud.langfuse.com"


@dataclass(frozen=True, slots=True)
class LangfuseKeys:
    """A key pair and the address it belongs to; it is read from the environment alone and never stored."""

    public_key: str
    secret_key: str = field(repr=False)
    base_url: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> LangfuseKeys:
        """Read `LANGFUSE_PUBLIC_KEY`, `LANGFUSE_SECRET_KEY` and `LANGFUSE_BASE_URL` (or `LANGFUSE_HOST`).

        Raises:
            CredentialsError: a key is not set.
        """
        missing = [n for n in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not environ.get(n)]
        if missing:
            raise CredentialsError(
                f"{' and '.join(missing)} not set",
                hint="create a key pair in the project's settings on Langfuse and export it",
            )
        base_url = environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST") or DEFAULT_URL
        return cls(environ["LANGFUSE_PUBLIC_KEY"], environ["LANGFUSE_SECRET_KEY"], base_url)
