// Dark or light before anything is painted: what was chosen last, or what the system has.
"use strict";

{
  let chosen = null;
  try { chosen = localStorage.getItem("s2m-theme"); } catch { /* nothing is kept here */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen ?? (dark ? "dark" : "light");
}
