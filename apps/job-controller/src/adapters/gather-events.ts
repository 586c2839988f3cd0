import type { JobRow } from "./read-job.ts";

/** Writes an event of the job, which `kubectl describe` shows. */
export type RecordEvent = (job: JobRow, type: "Normal" | "Warning", reason: string, message: string) => void;

/** Events that differ only in the name at their end are combined after this time. */
const GATHER_MS = 1000;
const MAX_NAMES = 20;

type Gathered = {
  readonly job: JobRow;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly messages: string[];
};

/** Combines similar events of one job, so that fifty created pods cause one event. Warnings are recorded immediately. Disposal records the pending events. */
export function gatherEvents(record: RecordEvent): { readonly record: RecordEvent } & Disposable {
  const waiting = new Map<string, Gathered>();
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { job, type, reason, messages } of waiting.values()) record(job, type, reason, join(messages));
    waiting.clear();
  }
  return {
    record: (job, type, reason, message) => {
      if (type === "Warning" || isOver) {
        record(job, type, reason, message);
        return;
      }
      const key = `${job.metadata.uid} ${reason}`;
      const gathered = waiting.get(key);
      if (gathered === undefined) waiting.set(key, { job, type, reason, messages: [message] });
      else gathered.messages.push(message);
      timer ??= setTimeout(flush, GATHER_MS);
    },
    [Symbol.dispose]: () => {
      isOver = true;
      flush();
    },
  };
}

/** Joins `Created pod: a` and `Created pod: b` to `Created pod: a, b`. */
function join(messages: readonly string[]): string {
  const [first = "", ...others] = messages;
  const colon = first.indexOf(": ");
  const head = first.slice(0, colon + 2);
  if (others.length === 0 || colon < 0 || !others.every((message) => message.startsWith(head)))
    return messages.join("; ");
  const names = messages.map((message) => message.slice(head.length));
  const left = names.length - MAX_NAMES;
  return `${head}${names.slice(0, MAX_NAMES).join(", ")}${left > 0 ? ` and ${left} more` : ""}`;
}
