import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const PAGES = globSync(["*.md", "{docs,deploy,examples}/**/*.md", "{apps,libs,tools}/**/README.md"], {
  cwd: ROOT,
  exclude: ["**/node_modules/**"],
}).toSorted();

const LINK = /\]\(([^)\s]+)\)/g;
const textOf = (page: string): string => readFileSync(join(ROOT, page), "utf8");

/** Files and headings that a page links to, relative to the root. */
function linksOf(page: string): readonly { readonly file: string; readonly heading: string }[] {
  return [...withoutCode(textOf(page)).matchAll(LINK)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [file = "", heading = ""] = target.split("#");
      return { file: file === "" ? page : relative(ROOT, join(ROOT, dirname(page), file)), heading };
    });
}

function withoutCode(text: string): string {
  return text.replaceAll(/^\s*```[^]*?^\s*```/gm, "").replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll("](", ""));
}

const SOURCES = globSync("{apps,libs,tools}/*/src/**/*.{ts,tsx}", { cwd: ROOT, exclude: ["**/node_modules/**"] });
const declared = new Map<string, ReadonlySet<string>>();

/** The names of the functions, constants, types and methods that a file declares. */
function declaredIn(file: string): ReadonlySet<string> {
  const words =
    /\b(?:function\*?|const|class|type|interface) +(\w+)|^\s+(?:readonly |async )?(\w+)\??(?:<[^>\n]*>)?[(:]/gm;
  const known =
    declared.get(file) ?? new Set([...textOf(file).matchAll(words)].map(([, one, other]) => one ?? other ?? ""));
  declared.set(file, known);
  return known;
}

/** The anchor of a heading on GitHub. */
function anchorsOf(page: string): readonly string[] {
  return [...withoutCode(textOf(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(/\s/g, "-"),
  );
}

describe("the documents", () => {
  it("are all in the index, docs/README.md, or in the index of the decisions", () => {
    const linked = ["docs/README.md", "docs/decisions/README.md"].flatMap(linksOf).map(({ file }) => file);
    const missing = PAGES.filter(
      (page) => page.startsWith("docs/") && page !== "docs/README.md" && !linked.includes(page),
    );
    expect(missing).toEqual([]);
  });

  it.each(PAGES)("%s links to files and headings that exist", (page) => {
    const broken = linksOf(page).filter(
      ({ file, heading }) =>
        !existsSync(join(ROOT, file)) || (heading !== "" && file.endsWith(".md") && !anchorsOf(file).includes(heading)),
    );
    expect(broken).toEqual([]);
  });

  it.each(PAGES)("%s has no line of more than 160 characters, tables excepted", (page) => {
    const long = textOf(page)
      .split("\n")
      .filter((line) => line.length > 160 && !/^\s*\|/.test(line));
    expect(long).toEqual([]);
  });

  it.each(PAGES)("%s names functions and types that are declared in the files that it links", (page) => {
    const named = [...textOf(page).matchAll(/\[`(\w+)`\]\(([^)\s]+\.tsx?)\)/g)];
    const missing = named.filter(([, name = "", file = ""]) => !declaredIn(join(dirname(page), file)).has(name));
    expect(missing.map(([link]) => link)).toEqual([]);
  });

  it.each(PAGES)("%s names only functions that exist", (page) => {
    const names = [...textOf(page).matchAll(/`([a-z]+[A-Z]\w*)\(/g)].map(([, name = ""]) => name);
    expect(names.filter((name) => !SOURCES.some((file) => declaredIn(file).has(name)))).toEqual([]);
  });
});
