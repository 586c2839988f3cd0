import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

/** `from "./a.ts"` and `import("./a.ts")`, for values and types. */
const RELATIVE = /\b(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;

/** The boundary test writes planted files temporarily. */
const LEFT_OUT = ["**/node_modules", "**/dist", "**/planted-*.ts"];

/** The imported files of each file, by path from the root. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Reads the relative imports between the sources of apps, libs and tools. */
export function readImports(root: string): ImportGraph {
  const files = globSync("{apps,libs,tools}/**/*.{ts,tsx}", { cwd: root, exclude: LEFT_OUT });
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(root, file), "utf8");
      const imported = [...text.matchAll(RELATIVE)].map(([, path = ""]) => posix.join(posix.dirname(file), path));
      return [file, imported.filter((path) => known.has(path))];
    }),
  );
}

/**
 * Returns the import cycles, sorted: the strongly connected components (Tarjan's algorithm) of two or more files, and files that import themselves.
 */
export function findImportCycles(graph: ImportGraph): string[][] {
  const cycles: string[][] = [];
  const order = new Map<string, number>();
  const open: string[] = [];
  /** Returns the earliest open file that is reachable from this one. */
  const visit = (file: string): number => {
    const own = order.size;
    order.set(file, own);
    open.push(file);
    let earliest = own;
    for (const next of graph.get(file) ?? []) {
      const seen = order.get(next);
      if (seen === undefined) earliest = Math.min(earliest, visit(next));
      else if (open.includes(next)) earliest = Math.min(earliest, seen);
    }
    if (earliest < own) return earliest;
    const component = open.splice(open.indexOf(file));
    if (component.length > 1 || graph.get(file)?.includes(file) === true) cycles.push(component.toSorted());
    return earliest;
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return cycles.toSorted(([a = ""], [b = ""]) => a.localeCompare(b));
}
