/** The part of a long log that is shown. */
export type LogDigest = {
  /** The first line of an error that stands before `last`, and the last one where that is another. */
  readonly errors: readonly string[];
  readonly last: readonly string[];
};

export const EMPTY_DIGEST: LogDigest = { errors: [], last: [] };

const MAX_LINES = 10;
/**
 * As runtimes and loggers write it: `TypeError: x`, `java.lang.Exception`, `panic:`, `"level":"error"`. In quotes it is a name in code, such as
 * `on("error")`.
 */
const ERROR = /(?<!['"`])\b(?:\w*error|\w*exception|fatal|panic|panicked)\b(?!['"`])|"level":\s*"(?:error|fatal)"/i;

/** A frame of a stack may have the word in the name of a function: `at throwError (file.js:1:1)`, `File "error.py", line 3`, `... 4 more`. */
const FRAME = /^\s*(?:at\s|File "|\.\.\. \d+ more)/;

/** The digest with one more line of the log. Empty lines are left out. */
export function digestLine({ errors, last }: LogDigest, line: string): LogDigest {
  if (line === "") return { errors, last };
  if (last.length < MAX_LINES) return { errors, last: [...last, line] };
  const [dropped = "", ...kept] = last;
  const isError = ERROR.test(dropped) && !FRAME.test(dropped);
  return { errors: isError ? [...errors.slice(0, 1), dropped] : errors, last: [...kept, line] };
}
