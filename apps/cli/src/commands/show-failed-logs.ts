import { faultOf } from "@muster/faults";
import type { Cli } from "../cli.ts";
import { plain } from "../domain/build-table.ts";
import type { Work } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";

/** Components of one whose logs are shown; one failure often takes the others down. */
const COMPONENTS_MAX = 3;
const LINES_MAX = 10;
/** Of a longer log only this much is read in search of its end. */
const BYTES_MAX = 4 * 1024 * 1024;

export type Followed = {
  readonly work: Work;
  readonly calls: Pick<WorkCalls, "log">;
  /** By which commands find it. */
  readonly target: string;
};

/** Shows the last lines of the components that failed, so that the reason is seen where the failure is. */
export async function showFailedLogs(cli: Cli, followed: readonly Followed[]): Promise<void> {
  for (const { work, calls, target } of followed) {
    if (work.outcome !== "failure") continue;
    const failed = work.components.filter(({ state }) => state === "FAILED");
    for (const { name } of failed.slice(0, COMPONENTS_MAX)) {
      const lines = await lastLines(calls, work.name, name);
      if (lines.length === 0) continue;
      const command = `muster logs ${target} ${name}`;
      cli.io.err([`last lines of ${name} (\`${command}\` shows all):`, ...lines.map((line) => `  ${plain(line)}`)]);
    }
  }
}

async function lastLines(calls: Pick<WorkCalls, "log">, name: string, component: string): Promise<string[]> {
  const decoder = new TextDecoder();
  let text = "";
  let from = { offset: 0, run: "" };
  try {
    while (from.offset < BYTES_MAX) {
      const chunk = await calls.log(name, component, from);
      text = (text + decoder.decode(chunk.bytes, { stream: true }))
        .split("\n")
        .slice(-LINES_MAX - 1)
        .join("\n");
      if (chunk.complete || chunk.next.offset <= from.offset) break;
      from = chunk.next;
    }
  } catch (error) {
    // The log is an extra here: that it is missing is a warning already.
    if (faultOf(error) === undefined) throw error;
  }
  return text
    .split("\n")
    .filter((line) => line !== "")
    .slice(-LINES_MAX);
}
