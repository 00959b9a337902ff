// What somebody writes in, points at or reads stays where it is on the screen while the page changes around it.
import { deaf } from "./keys.js";

/** Carry out `merge`, which changes `region`, and scroll so that the place of interest has not moved. */
export function still(region, merge) {
  const writing = document.activeElement?.matches("textarea, input, select") ? document.activeElement : null;
  const items = scrollY > 0 ? document.querySelectorAll("[data-item]") : [];
  const place = [writing, document.querySelector("[data-item]:hover"), ...items].find(inSight);
  const before = place?.getBoundingClientRect().top;
  merge();
  // What was written in is gone: what is typed on is meant for it, and not for the page. Unless it has been sent.
  const sent = writing?.form?.hasAttribute("data-busy");
  if (writing && !writing.isConnected && !sent && document.activeElement === document.body) deaf();
  if (!place?.isConnected) return;
  const moved = () => place.getBoundingClientRect().top - before;
  scrollBy({ top: moved(), behavior: "instant" });
  // At the top of the page there is nothing to scroll: leave the gap until the next change.
  if (place === writing && moved() < 0) region.style.paddingTop = `${-moved()}px`;
}

function inSight(node) {
  if (!node) return false;
  const { top, bottom, height } = node.getBoundingClientRect();
  return height > 0 && bottom > 0 && top < innerHeight;
}
