import type { AuditedChange } from "../adapters/audit-calls.ts";
import { buildRecord } from "./build-record.ts";
import { buildLine, buildTable, type Cell, type TableStyle } from "./build-table.ts";

export function buildChangeTable(changes: readonly AuditedChange[], style: TableStyle): string[] {
  const header = ["TIME", "USER", "CHANGE", "NAMESPACE", "OBJECT", "FROM", "OUTCOME"];
  return buildTable(header, changes.map(cellsOf), style);
}

/** Formats one change as a line of its own, for a growing list. */
export function buildChangeLine(change: AuditedChange, style: TableStyle): string {
  return buildLine(cellsOf(change), style);
}

/** Builds the stable format for `-o json`. */
export function buildChangeRecord(change: AuditedChange): Record<string, unknown> {
  return buildRecord(change);
}

function cellsOf({ atMs, user, method, namespace, resource, name, address, status, code }: AuditedChange): Cell[] {
  return [
    new Date(atMs).toISOString(),
    user,
    method,
    namespace === "" ? "-" : namespace,
    name === "" ? resource : `${resource}/${name}`,
    address,
    outcomeOf(status, code),
  ];
}

function outcomeOf(status: number | undefined, code: string): Cell {
  if (status === undefined) return { text: "unknown", colour: "yellow" };
  return code === "" ? { text: "done", colour: "green" } : { text: `${status} ${code}`, colour: "red" };
}
