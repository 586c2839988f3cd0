import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { StoryLine } from "./domain/build-report.ts";

/** The log lines of the services that name a session. */
export async function readLogs(directory: string, session: string): Promise<StoryLine[]> {
  const named = new RegExp(`"${session}["-]|\\b${session}\\b`);
  const files = await readdir(directory).catch((): string[] => []);
  const lines = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(directory, file), "utf8");
      return text
        .split("\n")
        .filter((line) => named.test(line))
        .map((line) => toStoryLine(file.replace(/\.log$/, ""), line));
    }),
  );
  return lines.flat();
}

function toStoryLine(source: string, line: string): StoryLine {
  try {
    const {
      time,
      level: _level,
      service: _service,
      instance: _instance,
      ...rest
    } = JSON.parse(line) as {
      readonly time?: string | number;
      readonly [key: string]: unknown;
    };
    return { atMs: new Date(time ?? 0).getTime(), source, text: JSON.stringify(rest) };
  } catch {
    return { atMs: 0, source, text: line };
  }
}
