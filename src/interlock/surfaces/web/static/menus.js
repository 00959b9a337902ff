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
  document.querySelector(".branch a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  for (const tail of document.querySelectorAll("[data-tail]")) tail.scrollTop = tail.scrollHeight;
}
