// What needs somebody is said once to who does not look: to a screen reader, and, where it is allowed, as a notice of the
// browser. Whatever settles it, in this tab or anywhere else, takes its notice away.
const notices = new Map();
let known = null;

/** Offer notices where the browser has them and was not asked yet. */
export function offerNotices() {
  const button = document.querySelector("[data-notify]");
  if (!("Notification" in window) || Notification.permission !== "default") return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await Notification.requestPermission();
    button.hidden = true;
  });
}

/** Say what is new among what the navigation lists as open. */
export function announce() {
  const open = new Map([...document.querySelectorAll("[data-need]")].map((one) => [one.dataset.need, one]));
  for (const [need, notice] of notices) {
    if (open.has(need)) continue;
    notice.close();
    notices.delete(need);
  }
  const fresh = known ? [...open].filter(([need]) => !known.has(need)) : [];
  known = new Set(open.keys());
  if (!fresh.length) return;
  document.querySelector("[data-announced]").textContent = `Needs you: ${fresh.map(([, one]) => one.textContent).join(". ")}`;
  if (document.hasFocus() || !("Notification" in window) || Notification.permission !== "granted") return;
  for (const [need, one] of fresh) {
    // Every tab gives it under one tag, so that it is shown once.
    const notice = new Notification("Interlock", { body: one.textContent, tag: need, icon: icon(true) });
    notice.onclick = () => {
      focus();
      location.assign(one.dataset.href);
    };
    notices.set(need, notice);
  }
}

/** The address of the icon, with a mark where somebody is needed. */
export const icon = (needing) => new URL(needing ? "./icon-needing.svg" : "./icon.svg", import.meta.url).pathname;
