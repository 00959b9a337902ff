// "3m ago" stays true while the page is open.
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"]];
// Made once: to make one for each time takes a phone a millisecond each.
const dateAndTime = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "long" });

export function keepTimes() {
  relabel(document);
  setInterval(() => relabel(document), 20000);
}

export function relabel(root) {
  for (const time of root.querySelectorAll("time[datetime*='T']")) {
    const at = Date.parse(time.dateTime);
    const words = ago((Date.now() - at) / 1000);
    if (time.textContent !== words) time.textContent = words;
    const local = Number.isNaN(at) ? "" : dateAndTime.format(at);
    if (time.title !== local) time.title = local;
  }
}

function ago(passed) {
  if (Number.isNaN(passed)) return "";
  if (passed < -60) return `in ${span(-passed)}`;
  return passed < 5 ? "just now" : `${span(passed)} ago`;
}

function span(length) {
  for (const [size, unit] of UNITS) if (length >= size) return `${Math.floor(length / size)}${unit}`;
  return `${Math.floor(length)}s`;
}
