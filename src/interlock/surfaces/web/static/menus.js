// Menus close when one looks elsewhere, and open towards where there is room.
export function tendMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest?.("details[data-menu][open]");
    if (!menu) return;
    menu.removeAttribute("open");
    menu.querySelector("summary").focus();
    event.stopPropagation();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-filter] select")) event.target.form.requestSubmit();
  });
  // Not by scrollIntoView: it moves where Tab begins, past the link that skips to the content.
  const here = document.querySelector(".branch a[aria-current]");
  const pages = here?.closest(".branch");
  if (pages) pages.scrollLeft = here.offsetLeft - (pages.clientWidth - here.offsetWidth) / 2;
  for (const tail of document.querySelectorAll("[data-tail]")) tail.scrollTop = tail.scrollHeight;
}
