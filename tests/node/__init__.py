import shutil
from pathlib import Path

import pytest

AGENTS = Path(__file__).parent.parent / "stand_ins" / "node_agents"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node on PATH")
