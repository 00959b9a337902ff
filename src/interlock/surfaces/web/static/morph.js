// Brings an element to what the server shows now, changing only what differs: focus, scrolling, selections, open
// menus and typed text stay. Children are matched by id, else by the ids they hold, else by place and kind. What stays
// is never taken out of the document, least of all the one that somebody writes in: a node that is moved loses the
// focus, and the next key goes elsewhere.
import { keepTyped } from "./kept.js";

export function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.isEqualNode(to)) return;
  const atEnd = from.matches("[data-tail]") && from.scrollHeight - from.scrollTop - from.clientHeight < 24;
  attributes(from, to);
  if (!isBox(from)) children(from, to);
  if (atEnd) from.scrollTop = from.scrollHeight;
}

const isBox = (node) => node.matches("textarea, input, select");

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    // Whether a menu is open, and what was typed, is the person's.
    if (!to.hasAttribute(name) && !kept(from, name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(name === "open" && from.localName === "details")) {
      from.setAttribute(name, value);
    }
  }
}

const kept = (node, name) =>
  (name === "open" && node.localName === "details") || ["data-at", "data-busy", "aria-busy"].includes(name);

function children(from, to) {
  const wanted = [...to.childNodes];
  const known = matches(from, wanted);
  const stays = new Set(known.values());
  for (const node of [...from.childNodes]) {
    if (stays.has(node)) continue;
    keepTyped(node);
    node.remove();
  }
  const unmoved = inOrder([...from.childNodes], wanted.map((next) => known.get(next)).filter(Boolean));
  let after = null;
  for (const next of wanted.reverse()) {
    const node = known.get(next) ?? next;
    if (!unmoved.has(node)) from.insertBefore(node, after);
    if (node === next && node.matches?.("[data-item]")) node.classList.add("fresh");
    after = node;
  }
  for (const [next, node] of known) morph(node, next);
}

/** Which child of `from` becomes which of `wanted`. */
function matches(from, wanted) {
  const found = new Map();
  const free = new Set(from.children);
  const pair = (next, node) => {
    if (!free.delete(node)) return;
    found.set(next, node);
  };
  const elements = wanted.filter((next) => next.nodeType === Node.ELEMENT_NODE);
  for (const next of elements) pair(next, counterpart(from, next));
  for (const next of elements) {
    if (found.has(next) || next.id) continue;
    pair(next, [...free].find((node) => !node.id && node.nodeName === next.nodeName));
  }
  // Text belongs to what it follows.
  for (const next of wanted) {
    if (next.nodeType === Node.ELEMENT_NODE) continue;
    const spot = next.previousSibling ? found.get(next.previousSibling)?.nextSibling : from.firstChild;
    if (spot?.nodeType === next.nodeType) found.set(next, spot);
  }
  return found;
}

/** The child of `from` with the id of `next`, or, where that has none, the one that holds an id which it holds. */
function counterpart(from, next) {
  for (const one of next.id ? [next] : next.querySelectorAll("[id]")) {
    let node = document.getElementById(one.id);
    while (node && node.parentNode !== from) node = node.parentNode;
    if (node && node.id === next.id && node.nodeName === next.nodeName) return node;
  }
  return null;
}

/** The most of `wanted`, which is `present` in another order, that can stay in place; always the one with the focus. */
function inOrder(present, wanted) {
  const place = new Map(present.map((node, n) => [node, n]));
  const pinned = wanted.findIndex((node) => node.contains(document.activeElement));
  const ends = []; // the run of each length that ends earliest, as {node, before}
  for (const [n, node] of wanted.entries()) {
    const at = place.get(node);
    if (pinned >= 0 && n !== pinned && n < pinned !== at < place.get(wanted[pinned])) continue;
    let length = ends.length;
    while (length && place.get(ends[length - 1].node) > at) length -= 1;
    ends[length] = { node, before: ends[length - 1] };
  }
  const unmoved = new Set();
  for (let end = ends.at(-1); end; end = end.before) unmoved.add(end.node);
  return unmoved;
}
