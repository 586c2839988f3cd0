import type { DeadLetter } from "../adapters/dead-letters.ts";
import { formatElapsed } from "@muster/faults";
import { buildRecord } from "./build-record.ts";
import { buildTable, type TableStyle } from "./build-table.ts";

export function buildDeadLetterTable(letters: readonly DeadLetter[], nowMs: number, style: TableStyle): string[] {
  const rows = letters.map(({ id, area, atMs, deliveries, subject, reason }) => [
    String(id),
    area,
    formatElapsed(nowMs - atMs),
    String(deliveries),
    subject,
    reason,
  ]);
  return buildTable(["ID", "AREA", "AGE", "TRIES", "SUBJECT", "REASON"], rows, style);
}

export function buildDeadLetter(letter: DeadLetter, style: TableStyle): string[] {
  const { id, area, reason, subject, type, deliveries, atMs, message, lostBytes } = letter;
  const fields = [
    ["area", area],
    ["given up", new Date(atMs).toISOString()],
    ["reason", reason],
    ["subject", subject],
    ["type", type === "" ? "-" : type],
    ["deliveries", String(deliveries)],
  ];
  const content =
    lostBytes === undefined ? JSON.stringify(message, undefined, 2).split("\n") : [`${lostBytes} bytes were not kept`];
  return [...buildTable(["LETTER", String(id)], fields, style), "", ...content];
}

/** Builds the stable format for `-o json`. */
export function buildDeadLetterRecord({ message, ...letter }: DeadLetter): Record<string, unknown> {
  return { ...buildRecord(letter), message };
}
