"""Where a workflow may write: never into the installed package, never to a path with a placeholder in it (B3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import InvalidRequest
from interlock.workflow.package.variables import Variables, usable_output
from interlock.workflow.state.files import output_folder


@pytest.mark.req("BMAD-NFR14")
@pytest.mark.parametrize(
    ("own", "configured", "used", "why"),
    [
        ("{project-root}/docs", "{project-root}/_bmad-output", "docs", ""),
        ("{config_source}:planning_artifacts}", "{project-root}/made", "made", "placeholder"),
        ("{project-root}/_bmad/out", "{project-root}/made", "made", "lies within _bmad/"),
        ("{project-root}/a/../_bmad", "{unknown}/x", "_bmad-output", "lies within _bmad/"),
        ("{project-root}/_bmad-output", "", "_bmad-output", ""),
    ],
)
def test_a_folder_that_cannot_be_used_gives_way(tmp_path: Path, own: str, configured: str, used: str, why: str) -> None:
    settings = {"output_folder": own, "config_source": "{project-root}/_bmad/bmm/config.yaml"}
    config = {"output_folder": configured}
    variables = Variables(settings, project_root=str(tmp_path), installed_path=str(tmp_path), config=config)
    found, warning = usable_output(variables)
    assert found.value("output_folder") == str(tmp_path / used)
    assert why in warning and bool(why) == bool(warning)


@pytest.mark.req("BMAD-NFR14")
@pytest.mark.parametrize("folder", ["_bmad", "_bmad/bmm/config.yaml:x}", "docs/../_bmad/out", "linked/out"])
def test_an_output_folder_within_the_package_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "_bmad").mkdir()
    (tmp_path / "linked").symlink_to("_bmad")
    with pytest.raises(InvalidRequest, match="installed package"):
        output_folder(str(tmp_path), folder)
    assert output_folder(str(tmp_path), "_bmad-output") == str(tmp_path / "_bmad-output")
