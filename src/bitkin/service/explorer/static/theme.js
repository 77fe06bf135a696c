// Light or dark, before anything is drawn: what was chosen here last, or what the machine says.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("bitkin-theme");
  } catch {
    // a browser may keep nothing for this page
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
