import { escapeControls } from "./build-table.ts";
import { listSome } from "./list-some.ts";

const MAX_SHOWN_RECORDS = 3;

/** The result of one check. */
export type Check = {
  readonly check: string;
  readonly status: "ok" | "warning" | "failed";
  readonly detail: string;
  /** The next step for the user; empty if none is needed. */
  readonly next: string;
};

/** An observation, or why it is missing. */
export type ObservedValue<Value> = { readonly value: Value } | { readonly trouble: string };

export function buildPassedCheck(check: string, detail: string): Check {
  return { check, status: "ok", detail, next: "" };
}

export function buildWarningCheck(check: string, detail: string, next: string): Check {
  return { check, status: "warning", detail, next };
}

export function buildFailedCheck(check: string, detail: string, next: string): Check {
  return { check, status: "failed", detail, next };
}

/** Builds the check of records that their service cannot read, each with the reason. */
export function listFailedRecords(
  of: string,
  unreadable: readonly (readonly [id: string, because: string])[],
  next: string,
): Check[] {
  if (unreadable.length === 0) return [];
  const lines = unreadable.map(([id, because]) => `${id}: ${escapeControls(because)}`);
  return [buildFailedCheck(`records of ${of}`, `cannot be read: ${listSome(lines, MAX_SHOWN_RECORDS, ";")}`, next)];
}
