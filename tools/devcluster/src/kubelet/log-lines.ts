/** One line of a log file in the form of the CRI: `2026-01-01T00:00:00.000000000Z stdout F text`. */
export type LogLine = {
  readonly time: string;
  /** False for a piece of a line that was too long for one entry. */
  readonly isComplete: boolean;
  readonly text: Buffer;
};

export type LogSelection = {
  readonly tailLines?: number;
  readonly sinceMs?: number;
  readonly timestamps?: boolean;
};

const NEWLINE = 10;
const SPACE = 32;

export function formatLogLine(
  line: { readonly atMs: number; readonly stream: "stdout" | "stderr"; readonly isComplete: boolean },
  text: Buffer,
): Buffer {
  // The times have milliseconds; readers of the format expect nanoseconds.
  const time = new Date(line.atMs).toISOString().replace("Z", "000000Z");
  return Buffer.concat([
    Buffer.from(`${time} ${line.stream} ${line.isComplete ? "F" : "P"} `),
    text,
    Buffer.from("\n"),
  ]);
}

/** Parses the complete entries of a piece of a log file, and returns the number of parsed bytes. */
export function parseLogLines(bytes: Buffer): { readonly lines: LogLine[]; readonly parsedBytes: number } {
  const lines: LogLine[] = [];
  let start = 0;
  for (;;) {
    const end = bytes.indexOf(NEWLINE, start);
    if (end < 0) return { lines, parsedBytes: start };
    const line = parseLogLine(bytes.subarray(start, end));
    if (line !== undefined) lines.push(line);
    start = end + 1;
  }
}

/** Selects the requested entries: those since a time, and the last lines of them. */
export function selectLogLines(lines: readonly LogLine[], selection: LogSelection): readonly LogLine[] {
  const { sinceMs, tailLines } = selection;
  const recent = sinceMs === undefined ? lines : lines.filter((line) => Date.parse(line.time) >= sinceMs);
  return tailLines === undefined ? recent : recent.slice(tailStart(recent, tailLines));
}

/** Formats an entry as `kubectl logs` prints it. `midLine`: the previous entry was only a piece of a line. */
export function renderLogLine(line: LogLine, midLine: boolean, timestamps: boolean): Buffer {
  const prefix = timestamps && !midLine ? `${line.time} ` : "";
  return Buffer.concat([Buffer.from(prefix), line.text, Buffer.from(line.isComplete ? "\n" : "")]);
}

function parseLogLine(bytes: Buffer): LogLine | undefined {
  const first = bytes.indexOf(SPACE);
  const second = bytes.indexOf(SPACE, first + 1);
  const third = bytes.indexOf(SPACE, second + 1);
  if (first < 0 || second < 0 || third < 0) return undefined;
  return {
    time: bytes.toString("latin1", 0, first),
    isComplete: bytes.toString("latin1", second + 1, third) === "F",
    text: bytes.subarray(third + 1),
  };
}

/** A line in pieces counts once, at its end. */
function tailStart(lines: readonly LogLine[], count: number): number {
  let missing = count;
  for (let index = lines.length - 1; index >= 0; index--) {
    const endsLine = lines[index]?.isComplete === true || index === lines.length - 1;
    if (endsLine && missing-- === 0) return index + 1;
  }
  return 0;
}
