// The picture of dependencies: what is before and after a task lights up while one points at it; the picture is made
// smaller and larger by buttons or Ctrl and the wheel, and dragged by the mouse.
const LEAST = 0.05;
const MOST = 3;
let size = 1;

export function tendGraph() {
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (event) => light(event.target));
  for (const here of document.querySelectorAll(".station.here")) center(here);
  const bar = document.querySelector("[data-zoom]");
  if (!bar) return;
  bar.hidden = !picture();
  bar.addEventListener("click", ({ target }) => {
    const value = target.closest("button")?.value;
    if (value) zoom(value === "fit" ? fitting() : value === "1" ? 1 : size * Number(value));
  });
  document.addEventListener("wheel", turned, { passive: false });
  document.addEventListener("pointerdown", grabbed);
}

const picture = () => document.querySelector(".graph-scroll .graph");

function center(station) {
  const scroll = station.closest(".graph-scroll");
  const [inner, outer] = [station.getBoundingClientRect(), scroll.getBoundingClientRect()];
  scroll.scrollBy(inner.left + inner.width / 2 - outer.left - outer.width / 2, 0);
}

function light(target) {
  const at = target.closest?.("[data-station]")?.dataset.station;
  for (const graph of document.querySelectorAll(".graph.lighting")) {
    graph.classList.remove("lighting");
    for (const one of graph.querySelectorAll(".lit")) one.classList.remove("lit");
  }
  if (!at) return;
  const graph = target.closest(".graph");
  const tracks = [...graph.querySelectorAll("path[data-from]")];
  const lit = new Set([at]);
  for (const [near, far] of [["from", "to"], ["to", "from"]]) {
    const after = new Map();
    for (const track of tracks) after.set(track.dataset[near], [...(after.get(track.dataset[near]) ?? []), track]);
    const ahead = [at];
    for (const id of ahead) {
      for (const track of after.get(id) ?? []) {
        track.classList.add("lit");
        if (!lit.has(track.dataset[far])) ahead.push(track.dataset[far]);
        lit.add(track.dataset[far]);
      }
    }
  }
  for (const station of graph.querySelectorAll("[data-station]")) {
    station.classList.toggle("lit", lit.has(station.dataset.station));
  }
  graph.classList.add("lighting");
}

function zoom(to, x = 0, y = 0) {
  const scroll = picture().parentElement;
  const next = Math.max(LEAST, Math.min(MOST, to));
  const [left, top] = [(scroll.scrollLeft + x) / size, (scroll.scrollTop + y) / size];
  size = next;
  document.documentElement.style.setProperty("--zoom", size);
  scroll.scrollTo(left * size - x, top * size - y); // what was under the pointer stays there
}

function fitting() {
  const box = picture().viewBox.baseVal;
  const scroll = picture().parentElement;
  return Math.min(1, scroll.clientWidth / box.width, (innerHeight * 0.76) / box.height);
}

function turned(event) {
  const scroll = event.ctrlKey && event.target.closest?.(".graph-scroll");
  if (!scroll) return;
  event.preventDefault();
  const box = scroll.getBoundingClientRect();
  zoom(size * (event.deltaY < 0 ? 1.1 : 1 / 1.1), event.clientX - box.left, event.clientY - box.top);
}

function grabbed(event) {
  const scroll = event.target.closest(".graph-scroll");
  if (!scroll || event.pointerType !== "mouse" || event.button || event.target.closest("a")) return;
  const drag = ({ movementX, movementY }) => scroll.scrollBy(-movementX, -movementY);
  addEventListener("pointermove", drag);
  addEventListener("pointerup", () => removeEventListener("pointermove", drag), { once: true });
}
