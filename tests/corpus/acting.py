"""A model that plays the real workflows: it shows the menus of each step's own text, asks what the step tells it to
ask, writes the document, and says how the step stands."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from interlock.workflow.menus import step_menus
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.package.files import Files
from tests.workflow.stage import Part

DONE = '{"step": "completed"}'
WAITING = '{"step": "waiting"}'

QUESTIONS = {
    ("create-prd", "1"): "I found no other documents. Do you want to provide anything else?",
    ("create-prd", "2"): "What problem does it solve, and who are you building this for?",
    ("create-prd", "5"): "Which regulations apply in your domain?",
}
CODE_REVIEW = """**Issues Found:** 1 High, 2 Medium, 1 Low

What should I do with these issues?

1. **Fix them automatically** - I'll update the code and tests
2. **Create action items** - Add to story Tasks/Subtasks for later
3. **Show me details** - Deep dive into specific issues

Choose [1], [2], or specify which issue to examine:"""


class Model:
    """Plays one workflow. `answered` are the first lines of what it was answered."""

    def __init__(self, root: Path, name: str, document: str, tasks: int = 2) -> None:
        self.root = root
        self.name = name
        self.document = root / document
        self.answered: list[str] = []
        self.step = ""
        self.text = ""
        self.asked: set[str] = set()
        self.tasks = tasks

    async def __call__(self, part: Part) -> str:
        if part.step:
            self.step, self.text = part.step, part.prompt
        else:
            self.answered.append(part.answer)
        if "from the brief" in part.prompt or "Nobody is there" in part.prompt:
            return self.finish(f"Decided for step {self.step}.")
        if self.name == "dev-story" and part.step == "5":
            self.develop(part)
        question = QUESTIONS.get((self.name, self.step))
        if question and self.step not in self.asked:
            self.asked.add(self.step)
            return f"{question}\n{WAITING}"
        if self.name == "code-review" and self.step == "4" and part.step:
            return CODE_REVIEW
        if part.step:
            return self.finish(f"Drafted step {self.step}.")
        return self.save()

    def develop(self, part: Part) -> None:
        """The work itself, beside the story's own file."""
        path = self.root / "src" / "login.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {part.turn}\n")
        part.tool("completed", "src/login.py")

    def finish(self, said: str) -> str:
        """With the menu of the step, where it has one; else done."""
        if re.search(r"^File: .*instructions\.\w+$", self.text, re.MULTILINE):
            return self.save()  # its menus are for what does not come up here
        # `(y/n)` is asked after elicitation, which nobody has called for.
        menus = [one for one in step_menus.menus_of(self.text) if one.shape != "asked"]
        if not menus:
            return self.save()
        return f"{said}\n\n{shown(menus[-1])}\n{WAITING}"

    def save(self) -> str:
        self.document.parent.mkdir(parents=True, exist_ok=True)
        before = self.document.read_text() if self.document.exists() else ""
        self.document.write_text(f"{before}## Step {self.step}\n\nContent.\n\n")
        if self.name == "dev-story" and self.step == "8" and self.tasks > 1:
            self.tasks -= 1
            return '{"step": "completed", "next": "5"}'
        return f"Saved step {self.step}.\n{DONE}"


def shown(menu: Menu) -> str:
    """A menu as a model shows it."""
    lines = " ".join(f"[{one.key}] {one.label}" for one in menu.options)
    return f"{menu.prompt}\n{lines}" if menu.prompt and "[" not in menu.prompt else f"**Select an Option:** {lines}"


def changed_sources(root: Path) -> list[str]:
    """Files of the package that are not what its own manifest says any more."""
    rows = Files(str(root)).rows("_bmad/_config/files-manifest.csv")
    wrong = []
    for row in rows:
        path = root / "_bmad" / row["path"]
        listed = row.get("hash", "") if path.exists() else ""
        if re.fullmatch(r"[0-9a-f]{64}", listed) and hashlib.sha256(path.read_bytes()).hexdigest() != listed:
            wrong.append(row["path"])
    return wrong
