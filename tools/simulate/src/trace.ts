import { createHash } from "node:crypto";

/** All steps of a simulation, one per line, in order. The same seed gives the same lines. */
export type Trace = {
  readonly lines: readonly string[];
  /** `who` is a process or a part of the world. */
  note(who: string, text: string): void;
  hash(): string;
  /** The last `maxLines` lines that name the subject, or of all lines when it is undefined. */
  about(subject: string | undefined, maxLines: number): readonly string[];
};

export function makeTrace(nowMs: () => number, startMs: number): Trace {
  const lines: string[] = [];
  return {
    lines,
    note: (who, text) => {
      lines.push(`${((nowMs() - startMs) / 1000).toFixed(3).padStart(9)} ${who.padEnd(24)} ${text}`);
    },
    hash: () => {
      const sum = createHash("sha256");
      for (const line of lines) sum.update(line).update("\n");
      return sum.digest("hex").slice(0, 16);
    },
    about: (subject, maxLines) =>
      (subject === undefined ? lines : lines.filter((line) => line.includes(subject))).slice(-maxLines),
  };
}
