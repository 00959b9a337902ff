"""Menu Participation Engine: from what an agent said to what is answered (BMAD-2b.1 to 2b.4, FR7–FR12)."""

from __future__ import annotations

from dataclasses import replace

from interlock.lazy_dataclass import dataclass
from interlock.workflow.menus import forms, step_menus
from interlock.workflow.menus.detection import Detection, detect
from interlock.workflow.menus.selection import Selection, Situation, select


@dataclass(frozen=True)
class Participation:
    """The detection, and the selection where a menu was found."""

    detection: Detection
    selection: Selection | None

    @property
    def within(self) -> str | None:
        """The nested mode that shows the menu that was found: party, elicitation or None."""
        menu = self.detection.step_menu or self.detection.menu
        return forms.belongs_to(menu) if menu else None


def participate(output: str, step: str = "", situation: Situation | None = None) -> Participation:
    """What to do about `output`.

    `step` is the text of the step being run: with it, the step's own menus are recognised (also in a fence), and the
    option that its text marks as the way on is known.
    """
    detection = detect(output, step_menus.menus_of(step) if step else ())
    return Participation(detection, selected(detection, step, situation or Situation()))


def selected(detection: Detection, step: str, situation: Situation) -> Selection | None:
    """The answer to the menu that was detected in an output; None where there is none. `step` as for `participate`."""
    menu = detection.step_menu or detection.menu
    if menu is None:
        return None
    if situation.way_on is None and step and detection.step_menu:
        situation = replace(situation, way_on=step_menus.way_on(step), own=True)
    return select(menu, detection.certainty, situation)
