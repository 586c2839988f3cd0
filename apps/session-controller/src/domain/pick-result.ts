const RESULT_BYTES = 32 * 1024;

/** The result that a driver leaves: the last line of its log that is a JSON object of at most 32 KiB; empty when there is none. */
export function pickResult(log: string): string {
  const lines = log.split("\n");
  for (let index = lines.length - 1; index >= 0; index -= 1) {
    const line = lines[index]?.trim() ?? "";
    if (isJsonObject(line)) return line;
  }
  return "";
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
