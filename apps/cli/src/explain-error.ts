import { CommanderError } from "commander";
import { findFault } from "@muster/faults";
import { CommandError } from "./command-error.ts";
import { decideExit, EXIT, type ExitCode } from "./domain/decide-exit.ts";
import { describeTrouble } from "./domain/describe-trouble.ts";
import { shortenWords } from "./domain/shorten.ts";
import type { ResourceRow } from "./kinds/resource.ts";

/**
 * Formats the error of the command, or of the part that `doing` names, as `error: ...` and `hint: ...` with an exit code. A defect of Muster keeps its stack.
 */
export function explainError(
  error: unknown,
  resources: readonly Pick<ResourceRow, "noun" | "missing">[],
  doing?: string,
): { readonly exitCode: ExitCode; readonly lines: readonly string[] } {
  const about = doing === undefined ? "" : `${doing}: `;
  // commander has already printed its message; help is no failure.
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? EXIT.ok : EXIT.usage, lines: [] };
  if (error instanceof CommandError) return explained(error.exitCode, about + error.message, error.hint);
  const fault = findFault(error);
  if (fault !== undefined) {
    const { code, hint } = decideExit(fault);
    const kind = fault.code === "not_found" ? fault.kind.toLowerCase() : undefined;
    const missing = resources.find(({ noun }) => noun === kind)?.missing;
    return explained(code, about + describeTrouble(fault), missing ?? hint);
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return explained(EXIT.failed, `a defect of muster itself: ${text}`, "please report it");
}

function explained(exitCode: ExitCode, message: string, hint: string | undefined) {
  return { exitCode, lines: [`error: ${shortenWords(message)}`, ...(hint === undefined ? [] : [`hint: ${hint}`])] };
}
