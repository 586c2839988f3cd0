/** Maximum size of a result, which is stored in the session's record. */
const RESULT_BYTES = 32 * 1024;

/** The part of the driver's log that was read, or the reason why its last lines are unknown. */
export type DriverLog =
  | {
      readonly text: string;
      /** True if the text may begin within a line. */
      readonly startMissing: boolean;
    }
  | { readonly unreadable: string };

export type PickedResult = {
  /** Empty: no result. */
  readonly resultJson: string;
  /** The reason why a result may be missing; undefined: no result is known to be missing. */
  readonly lost: string | undefined;
};

/**
 * Picks the result of a driver, at most 32 KiB: its result file if that is a JSON object, else the last line of its log if that line is a JSON object. Never
 * picks a line before the driver's last line. Undefined: no log exists.
 */
export function pickResult(log: DriverLog | undefined, file: string): PickedResult {
  const left = file.trim();
  if (isJsonObject(left)) return { resultJson: left, lost: undefined };
  const picked = pickFromLog(log);
  // The result file is not a JSON object. A message of the container runtime about a program that did not start is ignored.
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
  // The end of a truncated line can look like a line of JSON.
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
