import { plain } from "./build-table.ts";
import { listSome } from "./list-some.ts";

const RECORDS_SHOWN = 3;

/** One thing that must be right, and whether it is. */
export type Check = {
  readonly check: string;
  readonly status: "ok" | "warning" | "failed";
  readonly detail: string;
  /** What to do next; empty when there is nothing to do. */
  readonly next: string;
};

/** What was seen, or why it could not be. */
export type Seen<Value> = { readonly value: Value } | { readonly trouble: string };

export function ok(check: string, detail: string): Check {
  return { check, status: "ok", detail, next: "" };
}

export function warning(check: string, detail: string, next: string): Check {
  return { check, status: "warning", detail, next };
}

export function failed(check: string, detail: string, next: string): Check {
  return { check, status: "failed", detail, next };
}

/** Records that their service cannot read, each with the reason; none is nothing to tell of. */
export function failedRecords(
  of: string,
  unreadable: readonly (readonly [id: string, because: string])[],
  next: string,
): Check[] {
  if (unreadable.length === 0) return [];
  const told = unreadable.map(([id, because]) => `${id}: ${plain(because)}`);
  return [failed(`records of ${of}`, `cannot be read: ${listSome(told, RECORDS_SHOWN, ";")}`, next)];
}
