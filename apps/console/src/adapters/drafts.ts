/** A draft is stored after it has not changed for this time, because each key changes it and it may be long. */
const STORE_DELAY_MS = 300;

type Draft = { readonly key: string; readonly text: string; readonly timer: number };

let pending: Draft | undefined;

window.addEventListener("pagehide", storePending);
// A browser may end a hidden page without another event.
document.addEventListener("visibilitychange", storePending);

/** Returns the text that the user left. It survives a reload, another page and another sign-in of the same user, in this tab alone. */
export function readDraft(user: string): string {
  const key = keyOf(user);
  return pending?.key === key ? pending.text : (sessionStorage.getItem(key) ?? "");
}

/** Stores the text soon, and at the end of the page at the latest. */
export function keepDraft(user: string, text: string): void {
  const key = keyOf(user);
  if (pending?.key !== key) storePending();
  window.clearTimeout(pending?.timer);
  pending = { key, text, timer: window.setTimeout(storePending, STORE_DELAY_MS) };
}

/** Removes all drafts, so that the next user of the tab finds none. */
export function dropDrafts(): void {
  window.clearTimeout(pending?.timer);
  pending = undefined;
  sessionStorage.clear();
}

function storePending(): void {
  if (pending === undefined) return;
  const { key, text, timer } = pending;
  window.clearTimeout(timer);
  pending = undefined;
  try {
    sessionStorage.setItem(key, text);
  } catch {
    // Without room for it the text is not kept.
  }
}

function keyOf(user: string): string {
  return `muster-draft ${user}`;
}
