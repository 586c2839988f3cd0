import { globSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildSite } from "../site/build-site.ts";
import { buildUrl } from "../site/markdown.ts";
import { indexSections, type Section } from "../site/search.ts";

type Tag = { readonly name: string; readonly attributes: ReadonlyMap<string, string> };

const ROOT = join(import.meta.dirname, "../../..");
const DOCUMENTS = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })].toSorted();
const URLS = new Set(["href", "src", "action", "formaction", "data", "poster", "cite", "background"]);
const OUTSIDE = /^\s*(?:[a-z][a-z+.-]*:|\/\/)/i;
/** Allows no connections of scripts, such as fetch. */
const POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; ";
const LOADS = /https?:\/\/|\bimport(?:Scripts)?\s*\(|url\(|@import|image-set/g;

let folder: string;
let site: string;
let pages: ReadonlyMap<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-site-"));
  site = join(folder, "site");
  await buildSite(ROOT, site);
  pages = await readHtml(site);
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("the site of the documents", () => {
  it.each(DOCUMENTS)("has a page of %s with its first heading as title", async (path) => {
    const [, heading = ""] = /^# (.*)$/m.exec(await readFile(join(ROOT, path), "utf8")) ?? [];
    expect(textOf(/<h1[^>]*>(.*?)<\/h1>/.exec(pages.get(buildUrl(path)) ?? "")?.[1])).toBe(heading.replaceAll("`", ""));
  });

  it("groups the pages by purpose", () => {
    const navigation = pages.get("index.html") ?? "";
    const purposes = [...navigation.matchAll(/<summary>(.*?)<\/summary>/g)].map(([, purpose]) => purpose);
    expect(purposes).toEqual(["Tutorials", "Guides", "Reference", "Explanation", "Decisions", "Repository"]);
    for (const path of DOCUMENTS) expect(navigation).toContain(`href="${buildUrl(path)}"`);
  });

  it("sends no request to another host", async () => {
    for (const [page, html] of pages) {
      expect(tagsOf(html).filter(sendsRequest), page).toEqual([]);
      expect(html, page).toContain(`http-equiv="Content-Security-Policy" content="${POLICY}`);
    }
    for (const file of ["site.js", "scheme.js", "style.css"]) {
      expect((await readSite(file)).match(LOADS) ?? [], file).toEqual([]);
    }
  });

  it("links only to files and headings that exist", () => {
    const files = new Set(globSync("**/*", { cwd: site }));
    const broken: string[] = [];
    for (const [page, html] of pages) {
      for (const { attributes } of tagsOf(html)) {
        const url = attributes.get("href") ?? attributes.get("src");
        if (url === undefined || OUTSIDE.test(url)) continue;
        const [path = "", id] = url.split("#");
        const target = path === "" ? page : posix.join(posix.dirname(page), path);
        const hasId = id === undefined || pages.get(target)?.includes(` id="${id}"`) === true;
        if (!files.has(target) || !hasId) broken.push(`${page}: ${url}`);
      }
    }
    expect(broken).toEqual([]);
  });

  it("has a light and a dark scheme", async () => {
    expect(await readSite("style.css")).toMatch(/color-scheme:light dark/);
    expect(await readSite("style.css")).toMatch(/--background:\s*light-dark\(/);
  });
});

describe("the search", () => {
  it("finds each page by its title", async () => {
    const context: { musterSections?: readonly Section[] } = {};
    runInNewContext(await readSite("search-index.js"), context);
    const sections = context.musterSections ?? [];
    const find = indexSections(sections);
    for (const path of DOCUMENTS) {
      const url = buildUrl(path);
      const title = sections.find((section) => section.url === url)?.title ?? "missing";
      expect(find(title).map((section) => section.url)).toContain(url);
    }
  });

  const find = indexSections([
    { title: "Decision: elastic pools", heading: "", url: "docs/decisions/1.html", text: "Elastic pools grow." },
    { title: "Elastic pools", heading: "Fields", url: "docs/elastic-pools.html#fields", text: "MUSTER_POOLS_FILE" },
    { title: "Elastic pools", heading: "", url: "docs/elastic-pools.html", text: "Pools that grow." },
  ]);
  const urlsOf = (query: string): readonly string[] => find(query).map(({ url }) => url);

  it("finds the start of a guide before its sections and before decisions", () => {
    expect(urlsOf("elastic pools")).toHaveLength(3);
    expect(urlsOf("elastic pools")[0]).toBe("docs/elastic-pools.html");
  });

  it.each(["elast fiel", "MUSTER_POOLS_FILE", "pools-file", "elastik fields"])("finds a section by %s", (query) => {
    expect(urlsOf(query)).toEqual(["docs/elastic-pools.html#fields"]);
  });

  it.each(["", "- =", "elastic nonsense"])("returns no result for %o", (query) => {
    expect(urlsOf(query)).toEqual([]);
  });
});

describe("a build", () => {
  const index = "# Documents\n\n## Reference\n\n- [Fields](fields.md)\n";

  it("places a page that no index lists by its folder, or else in the guides", async () => {
    const built = await buildFrom({
      "README.md": "# Start\n",
      "docs/README.md": index,
      "docs/fields.md": "# Fields of `x` & y\n",
      "docs/loose.md": "# Loose\n\n<!-- generated -->\n",
      "docs/reference/new.md": "# A new page\n",
    });
    const navigation = built.get("index.html")?.replaceAll(/\s*\n\s*/g, "");
    expect(navigation).toMatch(/<summary>Guides<\/summary><ul><li><a href="docs\/loose.html">Loose<\/a><\/li><\/ul>/);
    expect(built.get("docs/loose.html")).not.toContain("generated");
    expect(navigation).toMatch(/<summary>Reference<\/summary><ul><li><a [^>]*>Fields of x &amp; y<\/a>.*A new page/);
  });

  it("turns linked files into pages, and links to folders into text", async () => {
    const built = await buildFrom({
      "README.md":
        "# Start\n\n[values](deploy/values.yaml) [deploy](deploy) [app](app/) [site](https://example.com/)\n",
      "deploy/values.yaml": 'html: "<b>"\n',
      "app/README.md": "# App\n\n[back](../README.md#start)\n",
    });
    const start = built.get("index.html");
    expect(start).toContain('<a href="deploy/values.yaml.html">values</a>');
    expect(start).toContain('<span class="folder" title="deploy">deploy</span>');
    expect(start).toContain('<a href="app/index.html">app</a>');
    expect(start).toContain('<a href="https://example.com/" rel="external noreferrer">site</a>');
    expect(textOf(built.get("deploy/values.yaml.html"))).toContain('html: "<b>"');
    expect(built.get("app/index.html")).toContain('<a href="../index.html#start">back</a>');
  });

  it("fails on broken links, images of other hosts and HTML, and lists them all", async () => {
    const build = buildFrom({
      "README.md": "# Start\n\n[a](gone.md) [b](#gone) [c](../outside.md)\n",
      "docs/page.md": "# Page\n\n![d](https://example.com/d.png)\n\nRun it with <name>.\n",
    });
    await expect(build).rejects.toThrow(
      [
        "the documents have errors:",
        "README.md: the link to gone.md is broken",
        "README.md: the link to #gone names a heading that is missing",
        "README.md: the link to ../outside.md is broken",
        "docs/page.md: the image https://example.com/d.png is no file of the repository",
        "docs/page.md: write <name> as code, not as HTML",
      ].join("\n"),
    );
  });
});

/** A link that the reader follows is no request; its page is not in the site. Inline code and styles are forbidden, because they could hide one. */
function sendsRequest({ name, attributes }: Tag): boolean {
  if (/^(?:style|iframe|object|embed|base|form)$/.test(name)) return true;
  if (name === "script" && !attributes.has("src")) return true;
  if (name === "a" && attributes.get("rel") === "external noreferrer") return false;
  return [...attributes].some(
    ([attribute, value]) =>
      /^(?:on.*|style|srcset|ping)$/.test(attribute) || (URLS.has(attribute) && OUTSIDE.test(value)),
  );
}

async function buildFrom(files: Readonly<Record<string, string>>): Promise<ReadonlyMap<string, string>> {
  const root = await mkdtemp(join(folder, "root-"));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  await buildSite(root, join(root, "site"));
  return readHtml(join(root, "site"));
}

async function readHtml(from: string): Promise<ReadonlyMap<string, string>> {
  const paths = globSync("**/*.html", { cwd: from });
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(from, path), "utf8")] as const)),
  );
}

const readSite = (path: string): Promise<string> => readFile(join(site, path), "utf8");

function tagsOf(html: string): readonly Tag[] {
  return [...html.matchAll(/<([a-z][a-z0-9]*)\b([^>]*)>/g)].map(([, name = "", rest = ""]) => ({
    name,
    attributes: new Map(
      [...rest.matchAll(/([a-z-]+)(?:="([^"]*)")?/g)].map(([, key = "", value = ""]) => [key, value]),
    ),
  }));
}

/** The text of HTML without tags. */
function textOf(html = ""): string {
  const text = html.replaceAll(/<a class="anchor".*?<\/a>|<[^>]*>/g, "");
  return text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");
}
