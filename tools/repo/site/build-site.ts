/** Builds the site of the documents into dist/docs: `npm run docs`. It needs no server: open dist/docs/index.html. */
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { buildPage } from "./layout.ts";
import { renderDocument, renderSource, splitSections, buildUrl } from "./markdown.ts";
import { planNavigation } from "./navigation.ts";
import { readPages, type SiteFile } from "./read-pages.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** Builds the site of the repository at `root` into a folder, which it empties first. Returns the number of pages. */
export async function buildSite(root: string, outdir: string): Promise<number> {
  const files = readPages(root);
  const navigation = planNavigation(root, files);
  await rm(outdir, { recursive: true, force: true });
  const pages = [...files.values()].filter((file) => file.kind !== "asset");
  for (const page of pages) {
    const body = page.kind === "document" ? renderDocument(root, page) : renderSource(page);
    await writeTo(join(outdir, buildUrl(page.path)), buildPage(page, body, navigation));
  }
  for (const { kind, path } of files.values()) {
    if (kind !== "asset") continue;
    await mkdir(dirname(join(outdir, path)), { recursive: true });
    await copyFile(join(root, path), join(outdir, path));
  }
  await writeTo(join(outdir, "search-index.js"), buildSearchIndex([...files.values()]));
  await bundleBrowserCode(outdir);
  return pages.length;
}

/** A script, because browsers do not fetch JSON from files. */
function buildSearchIndex(files: readonly SiteFile[]): string {
  const sections = files.flatMap((file) => (file.kind === "document" ? splitSections(file) : []));
  return `globalThis.musterSections = ${JSON.stringify(sections)};\n`;
}

async function bundleBrowserCode(outdir: string): Promise<void> {
  await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: ["browser/site.ts", "browser/scheme.ts", "browser/style.css", "browser/icon.svg"],
    outdir,
    outbase: "browser",
    loader: { ".svg": "copy" },
    bundle: true,
    minify: true,
    // Browsers do not load modules from files.
    format: "iife",
    target: "es2022",
    legalComments: "none",
    logLevel: "warning",
  });
}

async function writeTo(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

if (import.meta.main) {
  const outdir = join(ROOT, "dist/docs");
  const count = await buildSite(ROOT, outdir);
  console.log(`${count} pages: ${join(outdir, "index.html")}`);
}
