// The page works without this file; with it, it is live. Each module is one concern and stands alone.
import { completeSearch } from "./complete.js";
import { keepCurrent } from "./live.js";
import { sendForms } from "./forms.js";
import { listenForKeys } from "./keys.js";
import { offerNotices } from "./announce.js";
import { keepTimes } from "./times.js";
import { offerPush } from "./push.js";
import { offerPalette } from "./palette.js";
import { tendMenus } from "./menus.js";
import { tendGraph } from "./graph.js";
import { takeRemarks } from "./remarks.js";

document.documentElement.dataset.live = "";
keepCurrent();
sendForms();
listenForKeys();
offerNotices();
offerPush();
keepTimes();
tendMenus();
offerPalette();
takeRemarks();
completeSearch();
tendGraph();
