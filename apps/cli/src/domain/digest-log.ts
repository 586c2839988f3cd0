/** What is shown of a long log. */
export type LogDigest = {
  /** The last line of an error that stands before `last`; undefined where none does. */
  readonly error: string | undefined;
  readonly last: readonly string[];
};

export const EMPTY_DIGEST: LogDigest = { error: undefined, last: [] };

const MAX_LINES = 10;
/**
 * As runtimes and loggers write it: `TypeError: x`, `java.lang.Exception`, `panic:`, `"level":"error"`. In quotes it is a name in code, such as
 * `on("error")`.
 */
const ERROR = /(?<!['"`])\b(?:\w*error|\w*exception|fatal|panic|panicked)\b(?!['"`])|"level":\s*"(?:error|fatal)"/i;

/** The digest with one more line of the log. Empty lines are left out. */
export function digestLine({ error, last }: LogDigest, line: string): LogDigest {
  if (line === "") return { error, last };
  if (last.length < MAX_LINES) return { error, last: [...last, line] };
  const [dropped = "", ...kept] = last;
  return { error: ERROR.test(dropped) ? dropped : error, last: [...kept, line] };
}
