import type { ExitCode } from "./domain/decide-exit.ts";

/** Ends a command: `error: ...` and `hint: ...` on standard error, and this exit code. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;
  readonly hint: string | undefined;

  constructor(
    exitCode: ExitCode,
    message: string,
    options: { readonly hint?: string | undefined; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "CommandError";
    this.exitCode = exitCode;
    this.hint = options.hint;
  }
}
