import { findFault } from "@muster/faults";
import type { Cli } from "../cli.ts";
import { escapeControls } from "../domain/build-table.ts";
import { digestLine, EMPTY_DIGEST, type LogDigest } from "../domain/digest-log.ts";
import type { Work } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";

/** Limits the components of one session, because one failure often stops the others. */
const MAX_COMPONENTS = 3;
/** Limits the bytes of a log that are read to find its end. */
const MAX_BYTES = 4 * 1024 * 1024;

export type FollowedWork = {
  readonly work: Work;
  readonly calls: Pick<WorkCalls, "log">;
  /** The argument with which commands find the work. */
  readonly target: string;
};

/** States of components that never became ready before the timeout of their session. */
const UNREADY = ["NOT_READY", "UNKNOWN"];

/**
 * Shows the first and the last error line, and the last lines, of each failed component, so that the cause appears beside the failure. If no component failed,
 * shows those that never became ready.
 */
export async function showFailedLogs(cli: Cli, followed: readonly FollowedWork[]): Promise<void> {
  for (const { work, calls, target } of followed) {
    if (work.outcome !== "failure") continue;
    const isLost = work.warnings.some(({ code }) => code === "LOGS_LOST");
    const failed = work.components.filter(({ state }) => state === "FAILED");
    const unready = work.components.filter(({ state }) => UNREADY.includes(state));
    for (const { name } of (failed.length > 0 ? failed : unready).slice(0, MAX_COMPONENTS)) {
      const digest = await readDigest(calls, work.name, name);
      if (digest === undefined) continue;
      const { errors, last } = digest;
      const command = `muster logs ${target} ${name}`;
      const lines = [...errors.flatMap((error) => [error, "..."]), ...last];
      // An empty log may have been lost.
      if (lines.length === 0 && isLost) continue;
      cli.io.err(
        lines.length === 0
          ? [`${name} has written nothing; \`${command} -c CONTAINER\` shows the log of another container`]
          : [`last lines of ${name} (\`${command}\` shows all):`, ...lines.map((line) => `  ${escapeControls(line)}`)],
      );
    }
  }
}

/** Returns undefined if the log could not be read. */
async function readDigest(
  calls: Pick<WorkCalls, "log">,
  name: string,
  component: string,
): Promise<LogDigest | undefined> {
  const decoder = new TextDecoder();
  let digest = EMPTY_DIGEST;
  let rest = "";
  let from = { offset: 0, run: "" };
  try {
    while (from.offset < MAX_BYTES) {
      const chunk = await calls.log(name, component, from);
      const lines = (rest + decoder.decode(chunk.bytes, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      digest = lines.reduce(digestLine, digest);
      if (chunk.complete || chunk.next.offset <= from.offset) break;
      from = chunk.next;
    }
  } catch (error) {
    // A warning already reports the missing log.
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
  return digestLine(digest, rest);
}
