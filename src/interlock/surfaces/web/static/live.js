// Keeps the regions of the page current: on an event, those it concerns are fetched again and merged in.
//
// One tab of a browser holds the line and tells the others, since a browser has only a few lines to a server. Whoever
// holds it fetches everything once when it opens, so that nothing is missed between the page and its first event.
import { announce, icon as iconFile } from "./announce.js";
import { answered } from "./kept.js";
import { morph } from "./morph.js";
import { still } from "./still.js";
import { relabel } from "./times.js";

const SETTLE_MS = 120; // events come in bursts: one verb makes several
const AGAIN_MS = 1000;
const texts = new Map(); // what each region was last made of
const wanted = new Set();
const busy = new Set();
const rest = new Map(); // until when a region is left alone: what is dear to fetch is fetched less often
const REST = 4;
let timer = null;

export function keepCurrent() {
  const channel = new BroadcastChannel("interlock-events");
  channel.onmessage = ({ data }) => heard(data);
  const lead = () => hold(channel);
  if (navigator.locks) navigator.locks.request("interlock-line", lead);
  else lead();
  channel.postMessage({ ask: true });
  setInterval(poll, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) later();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) everything();
  });
  badge();
}

/** Fetch all regions again. */
export function everything() {
  for (const region of regions()) wanted.add(region.dataset.region);
  later();
}

const regions = () => document.querySelectorAll("[data-region]");

function hold(channel) {
  const tell = (message) => {
    heard(message);
    channel.postMessage(message);
  };
  let open = false;
  // A tab that comes later learns from this one how the line is.
  channel.addEventListener("message", ({ data }) => {
    if (data.ask) channel.postMessage({ open, told: true });
  });
  return new Promise(() => {
    const begin = (after) => {
      const line = new EventSource(after ? `/api/events?after=${encodeURIComponent(after)}` : "/api/events");
      let last = after;
      line.onopen = () => {
        open = true;
        tell({ open });
      };
      line.onmessage = (event) => {
        last = event.lastEventId || last;
        try {
          tell({ event: JSON.parse(event.data) });
        } catch {
          // A heartbeat, or where we stand: no event.
        }
      };
      line.onerror = () => {
        open = false;
        tell({ open });
        if (line.readyState === EventSource.CLOSED) setTimeout(() => begin(last), 3000);
      };
    };
    begin(null);
  });
}

function heard(message) {
  if ("open" in message) {
    const state = document.querySelector("[data-link]");
    const words = message.open ? "live" : "not connected";
    if (state && state.textContent !== words) state.textContent = words;
    document.body.toggleAttribute("data-cut", !message.open);
    if (message.open && !message.told) everything();
    return;
  }
  const { event } = message;
  if (!event || !event.type) return;
  if (event.type === "question.answered") answered(event);
  const topic = event.type.split(".")[0];
  const here = document.body.dataset.project;
  for (const region of regions()) {
    const topics = region.dataset.topics.split(" ");
    const concerned = ["*", topic, event.type].some((one) => topics.includes(one));
    if (concerned && (!here || event.team === here || region.dataset.region === "nav")) wanted.add(region.dataset.region);
  }
  later();
}

function later() {
  if (!timer && wanted.size) timer = setTimeout(work, SETTLE_MS);
}

function work() {
  timer = null;
  // Nobody looks: what changed is fetched when somebody does. Only the count in the title is kept true meanwhile.
  for (const name of [...wanted]) {
    if (document.hidden && name !== "nav") continue;
    if (busy.has(name)) continue;
    const left = (rest.get(name) ?? 0) - performance.now();
    if (left > 0) {
      timer ??= setTimeout(work, left);
      continue;
    }
    wanted.delete(name);
    refresh(name);
  }
}

async function refresh(name) {
  const region = document.getElementById(`region-${name}`);
  if (!region) return;
  busy.add(name);
  const began = performance.now();
  try {
    const headers = { accept: "text/html", "if-none-match": region.dataset.tag };
    if (texts.has(name)) headers["a-im"] = "interlock-lines";
    const answer = await fetch(region.dataset.src, { headers, cache: "no-store" });
    if (answer.ok) {
      const text = answer.status === 226 ? changed(texts.get(name), await answer.json()) : await answer.text();
      const next = new DOMParser().parseFromString(text, "text/html").getElementById(`region-${name}`);
      if (next) {
        texts.set(name, text);
        next.dataset.tag = answer.headers.get("etag");
        relabel(next);
        still(region, () => morph(region, next));
        if (name === "nav") badge();
      }
    } else if (answer.status === 401) {
      document.body.dataset.cut = "";
      const state = document.querySelector("[data-link]");
      if (state) state.textContent = "signed out: interlock open";
    } else if (answer.status >= 500) {
      setTimeout(() => again(name), AGAIN_MS);
    }
  } catch {
    setTimeout(() => again(name), 3 * AGAIN_MS);
  } finally {
    busy.delete(name);
    const ended = performance.now();
    rest.set(name, ended + REST * Math.min(ended - began, 5000));
    if (wanted.has(name)) later();
  }
}

/** What `text` becomes by changes of its lines: from, to, and what stands there now. */
function changed(text, changes) {
  const lines = text.split("\n");
  for (const [from, to, now] of changes.reverse()) lines.splice(from, to - from, ...now);
  return lines.join("\n");
}

function again(name) {
  wanted.add(name);
  later();
}

let ticks = 0;
function poll() {
  ticks += 1;
  if (document.hidden) return;
  for (const region of document.querySelectorAll('[data-region]:not([data-poll="0"])')) {
    const running = region.querySelector(".is-in-progress, .is-review, [data-live]");
    if (running && ticks % Number(region.dataset.poll) === 0) wanted.add(region.dataset.region);
  }
  later();
}

/** How many things need somebody: in the title, the icon and the mark. */
function badge() {
  const line = document.querySelector("[data-needs]");
  if (!line) return;
  const needs = Number(line.dataset.needs);
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = needs ? `(${needs}) ${title}` : title;
  document.body.toggleAttribute("data-needing", needs > 0);
  const icon = document.querySelector('link[rel="icon"]');
  const file = iconFile(needs > 0);
  if (icon.getAttribute("href") !== file) icon.setAttribute("href", file);
  announce();
}
