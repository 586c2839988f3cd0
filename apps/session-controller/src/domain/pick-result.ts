const RESULT_BYTES = 32 * 1024;

/** The result that a driver leaves: its result file when that is a JSON object, else the last line of its log that is one of at most 32 KiB; empty when there is none. */
export function pickResult(log: string, file: string): string {
  const left = file.trim();
  if (isJsonObject(left)) return left;
  const lines = log.split("\n");
  for (let index = lines.length - 1; index >= 0; index -= 1) {
    const line = lines[index]?.trim() ?? "";
    if (isJsonObject(line)) return line;
  }
  return "";
}

/** True for what was meant as a result and cannot be one: it is cut off, or no JSON. What a container runtime says of a program that did not start is neither. */
export function isSpoiledResult(file: string): boolean {
  const left = file.trim();
  return left.startsWith("{") && !isJsonObject(left);
}

function isJsonObject(line: string): boolean {
  if (!line.startsWith("{") || !line.endsWith("}")) return false;
  if (new TextEncoder().encode(line).length > RESULT_BYTES) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
