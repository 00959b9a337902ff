// A click on the number of a line begins a remark on that line, in the box that asks for changes.
export function takeRemarks() {
  document.addEventListener("click", (event) => {
    const number = event.target.closest("[data-remark]");
    const box = document.querySelector("textarea[data-reply]");
    if (!number || !box) return;
    const before = box.value.trimEnd();
    box.value = `${before}${before && "\n"}${number.dataset.remark}: `;
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  });
}
