import { existsSync } from "node:fs";
import { join, relative } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
/** Builds the console into a folder. Resolves with the bundled files, as paths from the root of the repository. */
export async function buildConsole(outDir: string): Promise<readonly string[]> {
  // Loaded only for a build: it takes a second.
  const { build } = await import("vite");
  let ids: readonly string[] = [];
  await build({
    root: join(ROOT, "apps/console"),
    logLevel: "error",
    build: { outDir, emptyOutDir: true },
    plugins: [
      {
        name: "bundled files",
        buildEnd() {
          ids = [...this.getModuleIds()];
        },
      },
    ],
  });
  // The other ids are modules that the bundler generates.
  const files = ids.map((id) => id.split("?")[0] ?? "").filter((id) => id.startsWith(ROOT) && existsSync(id));
  return [...new Set(files.map((file) => relative(ROOT, file)))].sort();
}
