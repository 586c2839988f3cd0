/** A result is a part of the session's record. */
const RESULT_BYTES = 32 * 1024;

/** What was read of the driver's log, or why it cannot be told what the last lines of it are. */
export type DriverLog =
  | {
      readonly text: string;
      /** The text may begin within a line. */
      readonly startMissing: boolean;
    }
  | { readonly unreadable: string };

export type PickedResult = {
  /** Empty: there is none. */
  readonly resultJson: string;
  /** Why a result that the driver may have left is not here; undefined: nothing is known to be missing. */
  readonly lost: string | undefined;
};

/**
 * The result that a driver leaves: its result file when that is a JSON object, else the last line of its log that is one, of at most 32 KiB. Never an earlier
 * line in place of one that is too large or was not read: that would be another result than the driver's. Undefined: there is no log.
 */
export function pickResult(log: DriverLog | undefined, file: string): PickedResult {
  const left = file.trim();
  if (isJsonObject(left)) return { resultJson: left, lost: undefined };
  const picked = pickFromLog(log);
  // What was meant as a result and cannot be one. What a container runtime says of a program that did not start is neither.
  if (!left.startsWith("{")) return picked;
  const spoiled = "the result file is not a JSON object; it may have 4096 bytes";
  return { ...picked, lost: picked.lost === undefined ? spoiled : `${spoiled}; ${picked.lost}` };
}

function pickFromLog(log: DriverLog | undefined): PickedResult {
  if (log === undefined) return { resultJson: "", lost: undefined };
  if ("unreadable" in log) return { resultJson: "", lost: `the end of the driver's log is missing: ${log.unreadable}` };
  const lines = log.text.split("\n").map((line) => line.trim());
  const begun = log.startMissing ? lines.shift() : undefined;
  const last = lines.findLast((line) => isJsonObject(line) || (line.startsWith("{") && isTooLarge(line)));
  if (last !== undefined && isTooLarge(last)) {
    return { resultJson: "", lost: `the last JSON line of the driver's log has more than ${RESULT_BYTES} bytes` };
  }
  // What a cut leaves of a long line of JSON ends like one.
  const cut = last === undefined && begun?.endsWith("}") === true;
  const lost = cut ? "the last JSON line of the driver's log is longer than what is kept of a log" : undefined;
  return { resultJson: last ?? "", lost };
}

function isJsonObject(line: string): boolean {
  if (!line.startsWith("{") || !line.endsWith("}") || isTooLarge(line)) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

function isTooLarge(line: string): boolean {
  return new TextEncoder().encode(line).length > RESULT_BYTES;
}
