import type { Progress } from "./run-chaos.ts";

/** A progress line that is rewritten in place on a terminal, and omitted elsewhere. */
export type ProgressLine = { readonly show: (progress: Progress) => void; readonly clear: () => void };

const CLEAR = "\r\u001b[2K";

export function makeProgressLine(output: NodeJS.WriteStream, seed: number): ProgressLine {
  if (!output.isTTY) return { show: () => undefined, clear: () => undefined };
  return {
    show: (progress) => {
      const text = `seed ${seed}  ${describe(progress)}`;
      output.write(`${CLEAR}${text.slice(0, output.columns - 1)}`);
    },
    clear: () => void output.write(CLEAR),
  };
}

function describe({ doing, total, counts, faults, faultsBegun, inForce }: Progress): string {
  if (counts === undefined) return doing;
  const busy = counts.accepted + counts.provisioning + counts.running;
  const parts = [
    `${counts.over}/${total} ended`,
    `${busy} running`,
    `${counts["cleaning-up"]} cleaning up`,
    `${counts.queued} queued`,
    `faults ${faultsBegun}/${faults}`,
  ];
  return `${parts.join(", ")}${inForce.length === 0 ? "" : ` (${inForce.join("; ")})`}`;
}
