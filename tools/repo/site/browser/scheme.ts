/// <reference lib="dom" />
// A blocking script: the page never appears in the other scheme first.

const KEY = "muster-scheme";
const root = document.documentElement;

apply(read());
document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("scheme");
  if (button === null) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const scheme = isDark() ? "light" : "dark";
    apply(scheme);
    save(scheme);
  });
});

/** Without a choice, the page uses the scheme of the system. */
function apply(scheme: string | null): void {
  if (scheme === "light" || scheme === "dark") root.dataset["scheme"] = scheme;
}

function isDark(): boolean {
  const chosen = root.dataset["scheme"];
  return chosen === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
}

/** Browsers may deny storage to files. */
function read(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function save(scheme: string): void {
  try {
    localStorage.setItem(KEY, scheme);
  } catch {
    // The choice lasts for this page.
  }
}
