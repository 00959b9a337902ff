// An answer that is being written when its question closes is not lost: its box stays, and takes what is typed on.
const WHY = "This question was closed before you sent your answer.";
const ANSWER_CHARS = 80;
const answers = new Map();

/** Remember who answered which question, and with what; the page may have been fetched without it before this is heard. */
export function answered({ actor, payload }) {
  const whole = String(payload.answer);
  const said = whole.length > ANSWER_CHARS ? `${whole.slice(0, ANSWER_CHARS)}…` : whole;
  answers.set(payload.id, `This question was answered by ${actor} with “${said}” before you sent yours.`);
  for (const note of document.querySelectorAll("[data-kept]")) {
    if (note.dataset.kept === payload.id) note.firstElementChild.textContent = sentence(answers.get(payload.id));
  }
}

const sentence = (why) => `${why} What you wrote is kept here:`;

/** Keep what was typed in the answer boxes of `gone`, which leaves the page. A form that is under way speaks for itself. */
export function keepTyped(gone) {
  if (gone.nodeType !== Node.ELEMENT_NODE) return;
  for (const box of gone.querySelectorAll("textarea[data-reply]")) {
    const why = box.form.refused ?? answers.get(box.closest("[data-question]")?.dataset.question);
    if (!box.form.hasAttribute("data-busy")) keep(box, box.closest("[data-region]"), why);
  }
}

/** Show the words of `box` before `place`, and say why they were not taken. */
export function keep(box, place, why = WHY) {
  const writing = document.activeElement === box;
  if (!(writing || box.value.trim()) || !place) return;
  const note = document.createElement("section");
  note.className = "kept-words";
  note.dataset.kept = box.closest("[data-question]")?.dataset.question ?? "";
  note.setAttribute("role", "status");
  const said = document.createElement("p");
  said.textContent = sentence(why);
  const words = document.createElement("textarea");
  words.rows = 3;
  words.value = box.value;
  words.setAttribute("aria-label", "What you wrote");
  const away = document.createElement("button");
  away.type = "button";
  away.className = "plain";
  away.textContent = "Put away";
  away.addEventListener("click", () => note.remove());
  note.append(said, words, away);
  place.before(note);
  if (!writing) return;
  words.focus(); // Else what is typed on would be taken for keys of the page.
  words.setSelectionRange(box.selectionStart, box.selectionEnd);
  words.addEventListener("blur", () => words.value.trim() || note.remove());
}
