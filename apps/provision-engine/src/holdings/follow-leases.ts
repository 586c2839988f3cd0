import type { View } from "@muster/store";
import type { Readable } from "../lead/records.ts";
import type { Holdings } from "./holdings.ts";

/** Keeps the holdings up to date with all leases of the engine. Returns the function that stops it. */
export function followLeases(
  view: Pick<View<Readable>, "entries" | "get" | "onChange">,
  holdings: Pick<Holdings, "learn" | "forget">,
  engine: string,
): () => void {
  const update = (id: string, entry: ReturnType<typeof view.get>): void => {
    if (entry === undefined) holdings.forget(id);
    else if ("record" in entry.value && entry.value.record.order.engine === engine)
      holdings.learn({ record: entry.value.record, revision: entry.revision });
  };
  for (const entry of view.entries()) update(entry.key, entry);
  return view.onChange((id) => update(id, view.get(id)));
}
