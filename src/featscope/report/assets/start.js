// Before anything is drawn: that there is script, and which theme was asked for.
document.documentElement.classList.add("js");
{
  let theme = new URLSearchParams(location.search).get("theme");
  try { theme ??= localStorage.getItem("featscope-theme"); } catch { /* no storage for a file opened directly */ }
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}
