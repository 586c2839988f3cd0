/** The part of a long log that is shown. */
export type LogDigest = {
  /** The first error line before `last`, and the last error line if it is another one. */
  readonly errors: readonly string[];
  readonly last: readonly string[];
};

export const EMPTY_DIGEST: LogDigest = { errors: [], last: [] };

const MAX_LINES = 10;
/**
 * Matches errors as runtimes and loggers write them: `TypeError: x`, `java.lang.Exception`, `panic:`, `"level":"error"`. A quoted word is a name in code, such
 * as `on("error")`.
 */
const ERROR = /(?<!['"`])\b(?:\w*error|\w*exception|fatal|panic|panicked)\b(?!['"`])|"level":\s*"(?:error|fatal)"/i;

/** Matches a frame of a stack, whose function may have an error word in its name: `at throwError (file.js:1:1)`, `File "error.py", line 3`, `... 4 more`. */
const FRAME = /^\s*(?:at\s|File "|\.\.\. \d+ more)/;

/** Adds one more line of the log to the digest. Omits empty lines. */
export function digestLine({ errors, last }: LogDigest, line: string): LogDigest {
  if (line === "") return { errors, last };
  if (last.length < MAX_LINES) return { errors, last: [...last, line] };
  const [dropped = "", ...kept] = last;
  const isError = ERROR.test(dropped) && !FRAME.test(dropped);
  return { errors: isError ? [...errors.slice(0, 1), dropped] : errors, last: [...kept, line] };
}
