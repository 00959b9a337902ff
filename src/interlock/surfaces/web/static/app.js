// The page works without this file; with it, it is live. Each module is one concern and stands alone.
import { keepCurrent } from "./live.js";
import { sendForms } from "./forms.js";
import { listenForKeys } from "./keys.js";
import { keepTimes } from "./times.js";
import { tendMenus } from "./menus.js";

document.documentElement.dataset.live = "";
keepCurrent();
sendForms();
listenForKeys();
keepTimes();
tendMenus();
