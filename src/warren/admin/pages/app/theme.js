// Light or dark, before anything is painted: a choice that was made here, else what the system prefers. A classic
// script, because a module would run after the first paint.
(() => {
  try {
    const theme = JSON.parse(localStorage.getItem("warren.theme"));
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // no storage, or not ours: the system's preference
  }
})();
