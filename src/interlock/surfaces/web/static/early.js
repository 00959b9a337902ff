// Loaded before the page is shown. A form that is sent before app.js is ready waits for it: sent as a plain one it would
// lack the key of this origin (see forms.js), and be refused.
const early = [];

function hold(event) {
  if (!event.target.matches("form[data-form]")) return;
  event.preventDefault();
  early.push([event.target, event.submitter]);
}

document.addEventListener("submit", hold);
