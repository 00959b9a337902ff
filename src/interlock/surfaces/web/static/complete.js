// What one may be looking for: the names of the tasks that the server finds for what is typed so far.
const PAUSE_MS = 250;
let timer = null;

export function completeSearch() {
  document.addEventListener("input", (event) => {
    const box = event.target.closest("[data-complete]");
    if (!box) return;
    clearTimeout(timer);
    timer = setTimeout(() => complete(box), PAUSE_MS);
  });
}

async function complete(box) {
  const region = box.closest("[data-region]");
  const address = new URL(box.form.action);
  address.search = new URLSearchParams([...new FormData(box.form), ["region", region.dataset.region]]);
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(box.list.id);
  if (found && box.isConnected) box.list.replaceChildren(...found.children);
}
