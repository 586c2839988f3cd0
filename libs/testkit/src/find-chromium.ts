import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The browser of this machine; undefined: it has none. */
export function findChromium(env: Readonly<Record<string, string | undefined>> = process.env): string | undefined {
  const { PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH: named, PATH = "" } = env;
  const onPath = PATH.split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...(named === undefined ? [] : [named]), ...onPath].find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
