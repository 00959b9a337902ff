// Notices while no page is open come by the push service of the browser's maker, and only once somebody asked for them here.
import { say } from "./toasts.js";

const WORKER = "/static/service-worker.js";
const THIRD_PARTY =
  "The maker of your browser (Google, Mozilla, Apple or Microsoft) delivers these notices while the page is closed. " +
  "It learns from which address they come, and when. What they say is encrypted for this browser alone. Continue?";

export async function offerPush() {
  const button = document.querySelector("[data-push]");
  if (!button || !("PushManager" in window) || !navigator.serviceWorker) return;
  const label = async () => {
    button.textContent = (await subscribed()) ? "No push" : "Push notices";
    button.hidden = false;
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await turn();
    } catch (error) {
      say(`The browser refused: ${error.message}`, true);
    } finally {
      button.disabled = false;
      await label();
    }
  });
  await label();
}

async function subscribed() {
  const worker = await navigator.serviceWorker.getRegistration(WORKER);
  return worker?.pushManager.getSubscription();
}

async function turn() {
  const form = document.querySelector("[data-subscribe]");
  const had = await subscribed();
  if (!had && !confirm(THIRD_PARTY)) return;
  const { endpoint, keys } = (had ?? (await subscribe(form.dataset.subscribe))).toJSON();
  if (had) await had.unsubscribe();
  Object.entries({ verb: had ? "stop" : "begin", endpoint, ...keys }).forEach(([name, value]) => {
    form.elements[name].value = value;
  });
  form.requestSubmit();
}

async function subscribe(applicationServerKey) {
  const { installing, waiting, active, pushManager } = await navigator.serviceWorker.register(WORKER);
  const worker = active ?? waiting ?? installing;
  while (worker.state !== "activated") {
    await new Promise((heard) => worker.addEventListener("statechange", heard, { once: true }));
  }
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
}
