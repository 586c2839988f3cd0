import { expect, it } from "vitest";
import { DELETING } from "@muster/ledger-client/choose-queue";
import { planMirror } from "./plan-mirror.ts";
import { QUEUE_FINALIZER, readQueueRow, type QueueRow } from "./queue-row.ts";
import type { QueueRecord } from "./read-queue.ts";

function queue(name: string, more: Partial<QueueRow> = {}): QueueRow {
  return { ...readQueueRow({ metadata: { name } }), finalizers: [QUEUE_FINALIZER], ...more };
}

const shown = ({ name, problem }: QueueRecord): string => (problem === "" ? name : `${name} (${problem})`);
const bucket = (...entries: readonly string[]) =>
  new Map(entries.map((entry) => [entry.split(" ", 1)[0] ?? "", entry]));
const plan = (rows: readonly QueueRow[], entries: ReadonlyMap<string, string>) => {
  const { unprotected, puts, deletions } = planMirror(rows, entries, (entry, record) => entry === shown(record));
  return { unprotected: unprotected.map(({ name }) => name), puts: puts.map(shown), deletions };
};

it.each<[string, readonly QueueRow[], ReadonlyMap<string, string>, Partial<ReturnType<typeof plan>>]>([
  ["nothing where nothing exists", [], bucket(), {}],
  ["nothing where the bucket is equal", [queue("a")], bucket("a"), {}],
  ["each queue into an empty bucket", [queue("a"), queue("b")], bucket(), { puts: ["a", "b"] }],
  ["over an entry that was changed", [queue("a")], bucket("a (changed)"), { puts: ["a"] }],
  ["entries without a Queue away", [queue("a")], bucket("a", "b"), { deletions: ["b"] }],
  ["everything away with the last Queue", [], bucket("a", "b"), { deletions: ["a", "b"] }],
  [
    "a queue that is being deleted, which admits nothing",
    [queue("a", { isDeleting: true })],
    bucket("a"),
    { puts: [`a (${DELETING})`] },
  ],
  [
    "a finalizer where it is missing",
    [queue("a", { finalizers: ["other"] }), queue("b")],
    bucket("a", "b"),
    { unprotected: ["a"] },
  ],
  [
    "no finalizer where the deletion was requested",
    [queue("a", { finalizers: [], isDeleting: true })],
    bucket(`a (${DELETING})`),
    {},
  ],
])("puts %s", (_title, rows, entries, expected) => {
  expect(plan(rows, entries)).toEqual({ unprotected: [], puts: [], deletions: [], ...expected });
});
