/** Time without a change after which a draft is stored: each key changes the draft, and it may be long. */
const STORE_DELAY_MS = 300;

type Draft = { readonly key: string; readonly text: string; readonly timer: number };

let pending: Draft | undefined;

window.addEventListener("pagehide", storePending);
// A browser may discard a hidden page without a further event.
document.addEventListener("visibilitychange", storePending);

/** Returns the stored draft of the user. It survives a reload, another page and another sign-in of the user, but only in this tab. */
export function readDraft(user: string): string {
  const key = keyOf(user);
  return pending?.key === key ? pending.text : (sessionStorage.getItem(key) ?? "");
}

/** Stores the draft soon, at the latest at the end of the page. */
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
    // The draft is not stored if the storage is full.
  }
}

function keyOf(user: string): string {
  return `muster-draft ${user}`;
}
