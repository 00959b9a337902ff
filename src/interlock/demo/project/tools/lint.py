"""Checks the sources: they compile, every module and public function says what it is for, and no import is unused."""

import ast
import sys
from pathlib import Path

LONGEST = 120


def faults(path: Path) -> list[str]:
    """What is wrong with one file."""
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    found = [] if ast.get_docstring(tree) else [f"{path}:1: the module does not say what it is for"]
    long = [number for number, line in enumerate(text.splitlines(), 1) if len(line) > LONGEST]
    found += [f"{path}:{number}: longer than {LONGEST} characters" for number in long]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith(("_", "test_"))
            and not ast.get_docstring(node)
        ):
            found.append(f"{path}:{node.lineno}: {node.name} does not say what it does")
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"{path}:{node.lineno}: a bare except hides every mistake")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [(alias.asname or alias.name).split(".")[0] for alias in node.names]
            found += [f"{path}:{node.lineno}: {name} is imported and not used" for name in names if name not in used]
    return found


def main() -> int:
    """Check all files; the exit code says whether they are in order."""
    files = sorted(path for folder in ("tally", "tests", "tools") for path in Path(folder).rglob("*.py"))
    found = [fault for path in files for fault in faults(path)]
    print("\n".join(found) or f"{len(files)} files, no issues")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
