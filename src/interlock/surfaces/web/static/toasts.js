// One line of news, said to screen readers too, gone after a while.
const STAYS_MS = 6000;

export function say(text, bad = false) {
  const toast = document.createElement("p");
  toast.className = bad ? "toast bad" : "toast";
  toast.textContent = text;
  document.querySelector("[data-toasts]").append(toast);
  setTimeout(() => toast.remove(), STAYS_MS);
}
