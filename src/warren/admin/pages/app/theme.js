// Sets light or dark before the first paint: the stored choice, else the system's. A classic script, because a module
// would run after the first paint.
(() => {
  try {
    const theme = JSON.parse(localStorage.getItem("warren.theme"));
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // no storage, or not ours: the system's preference
  }
})();
