import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { build } from "vite";

const MAX_FIRST_LOAD_BYTES = 250 * 1024;

let directory: string;
let page: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-console-build-"));
  await build({ root: join(import.meta.dirname, ".."), logLevel: "error", build: { outDir: directory } });
  page = await readFile(join(directory, "index.html"), "utf8");
});

afterAll(() => rm(directory, { recursive: true, force: true }));

const assetsOf = (html: string): readonly string[] =>
  [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, path = ""]) => path);

it("loads at most 250 kB first, compressed", async () => {
  const files = await Promise.all(["index.html", ...assetsOf(page)].map((path) => readFile(join(directory, path))));
  const bytes = files.reduce((sum, file) => sum + gzipSync(file).byteLength, 0);
  expect(files.length).toBeGreaterThan(2);
  expect(bytes).toBeLessThan(MAX_FIRST_LOAD_BYTES);
});

it("has no inline script and no inline style in the page, as its policy requires", () => {
  expect(page).not.toMatch(/<style|style=|<script(?![^>]* src=)|\son\w+=/);
});

it("names no other host in its assets", async () => {
  const names = await readdir(join(directory, "assets"));
  const texts = await Promise.all(names.map((name) => readFile(join(directory, "assets", name), "utf8")));
  const loads = /(?:import|fetch|EventSource|url)\(\s*["'`]https?:/;
  for (const text of [page, ...texts]) expect(text).not.toMatch(loads);
});
