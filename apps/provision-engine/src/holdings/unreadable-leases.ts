import type { View } from "@muster/store";
import type { Readable } from "../lead/records.ts";

/** A record that this version cannot read. Its lease is not served, does not end, and counts nowhere. */
export type UnreadableLease = { readonly id: string; readonly because: string };

/** The present unreadable records, ordered by id. */
export function unreadableLeases(view: Pick<View<Readable>, "entries">): UnreadableLease[] {
  return view
    .entries()
    .flatMap(({ key, value }) => ("unreadable" in value ? [{ id: key, because: value.unreadable }] : []));
}

export type UnreadableWatch = Disposable & { readonly count: () => number };

/** Reports each unreadable record once, and again if its reason changes. */
export function watchUnreadable(
  view: Pick<View<Readable>, "get" | "entries" | "onChange">,
  report: (lease: UnreadableLease) => void,
): UnreadableWatch {
  const known = new Map<string, string>();
  const found = (lease: UnreadableLease): void => {
    if (known.get(lease.id) === lease.because) return;
    known.set(lease.id, lease.because);
    report(lease);
  };
  for (const lease of unreadableLeases(view)) found(lease);
  const stop = view.onChange((id) => {
    const value = view.get(id)?.value;
    if (value !== undefined && "unreadable" in value) found({ id, because: value.unreadable });
    else known.delete(id);
  });
  return { count: () => known.size, [Symbol.dispose]: stop };
}
