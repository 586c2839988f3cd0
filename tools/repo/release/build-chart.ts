import type { Entry } from "./archive.ts";

/** The additions of a released chart to the one of the repository. */
export type ChartRelease = {
  readonly version: string;
  readonly repository: string;
  /** Digests by name of the image. */
  readonly digests: ReadonlyMap<string, string>;
};

/** Sets version, registry and digests in the files of the chart. Throws where a file lacks the line that it replaces. */
export function buildChart(files: readonly Entry[], release: ChartRelease): Entry[] {
  const { version, repository, digests } = release;
  const edits: Readonly<Record<string, readonly (readonly [RegExp, string])[]>> = {
    "muster/Chart.yaml": [
      [/^version: .*$/m, `version: ${version}`],
      [/^appVersion: .*$/m, `appVersion: ${version}`],
    ],
    "muster/values.yaml": [
      [/^ {2}repository: ""$/m, `  repository: ${repository}`],
      [/^ {2}digests: \{\}$/m, ["  digests:", ...lines(digests)].join("\n")],
    ],
  };
  return files.map((file) => {
    const text = (edits[file.path] ?? []).reduce((before, [pattern, line]) => {
      if (!pattern.test(before)) throw new Error(`${file.path} has no line ${pattern.source}`);
      return before.replace(pattern, () => line);
    }, file.content.toString());
    return { ...file, content: Buffer.from(text), executable: false };
  });
}

function lines(digests: ReadonlyMap<string, string>): string[] {
  return [...digests].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, digest]) => `    ${name}: ${digest}`);
}
