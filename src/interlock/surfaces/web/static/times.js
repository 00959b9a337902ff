// "3m ago" stays true while the page is open.
const UNITS = [[86400, "d"], [3600, "h"], [60, "m"]];

export function keepTimes() {
  relabel(document);
  setInterval(() => relabel(document), 20000);
}

export function relabel(root) {
  for (const time of root.querySelectorAll("time[datetime*='T']")) {
    const words = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== words) time.textContent = words;
    const local = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "long" });
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
