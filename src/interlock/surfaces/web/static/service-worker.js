// Shows what the server sends through a push service, and leads to it. It keeps nothing and answers no request.
addEventListener("push", (event) => {
  const { id, title, link } = event.data.json();
  // What comes again has the same id, and is shown once.
  event.waitUntil(registration.showNotification("Interlock", { body: title, tag: id, data: link }));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  // The server may have another name for itself than this browser has for it.
  const { pathname } = new URL(event.notification.data ?? "/", location.origin);
  event.waitUntil(clients.openWindow(new URL(pathname, location.origin)));
});
