import { globSync, readFileSync, statSync } from "node:fs";
import { extname, join, posix } from "node:path";
import { Lexer, type MarkedToken, type Token, type Tokens, type TokensList, walkTokens } from "marked";

/** A heading of a document. `id` is its anchor, the same as on GitHub. */
export type Heading = { readonly depth: number; readonly text: string; readonly id: string };

/** A Markdown file. Paths start at the root of the repository. */
export type Document = {
  readonly kind: "document";
  readonly path: string;
  readonly title: string;
  readonly tokens: TokensList;
  readonly headings: ReadonlyMap<Token, Heading>;
};

/** A text file to which a document links, such as a manifest or a source. */
export type SourceFile = {
  readonly kind: "source";
  readonly path: string;
  readonly title: string;
  readonly text: string;
};

/** An image of a document. */
export type Asset = { readonly kind: "asset"; readonly path: string };

export type SiteFile = Document | SourceFile | Asset;

/** The target of a link. Folders without a README have no page. */
export type LinkTarget =
  | { readonly kind: "outside"; readonly url: string }
  | { readonly kind: "file"; readonly path: string; readonly id: string }
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "missing"; readonly path: string };

const IMAGES = new Set([".avif", ".gif", ".jpg", ".jpeg", ".png", ".svg", ".webp"]);

/** Reads README.md, docs/**, and every file to which they link, also indirectly. Throws an error that lists every broken link. */
export function readPages(root: string): ReadonlyMap<string, SiteFile> {
  const pending = ["README.md", ...globSync("docs/**/*.md", { cwd: root }).toSorted()];
  const files = new Map<string, SiteFile>();
  // The loop appends the files that it finds.
  for (const path of pending) {
    if (files.has(path)) continue;
    const file = readSiteFile(root, path);
    files.set(path, file);
    for (const link of listLinks(file)) {
      const target = resolveLink(root, path, link.href);
      if (target.kind === "file") pending.push(target.path);
    }
  }
  const problems = [...files.values()].flatMap((file) => findProblems(root, file, files));
  if (problems.length > 0) throw new Error(`the documents have errors:\n${problems.join("\n")}`);
  return files;
}

/** Resolves the link of a document to a file of the repository. */
export function resolveLink(root: string, from: string, href: string): LinkTarget {
  if (/^[a-z][a-z+.-]*:|^\/\//i.test(href)) return { kind: "outside", url: href };
  const [file = "", id = ""] = href.split("#").map(decodeURIComponent);
  const path = file === "" ? from : posix.join(posix.dirname(from), file).replace(/\/$/, "");
  const isInside = !posix.isAbsolute(path) && !path.startsWith("..");
  const stats = isInside ? statSync(join(root, path), { throwIfNoEntry: false }) : undefined;
  if (stats === undefined) return { kind: "missing", path };
  if (!stats.isDirectory()) return { kind: "file", path, id };
  const readme = posix.join(path, "README.md");
  const hasReadme = statSync(join(root, readme), { throwIfNoEntry: false }) !== undefined;
  return hasReadme ? { kind: "file", path: readme, id } : { kind: "folder", path };
}

/** The text of tokens without markup, in one line. */
export function toPlainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => getText(token as MarkedToken))
    .join("")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** Whether HTML is only comments, such as the marker of a generated table. */
const isComment = (html: string): boolean => html.replaceAll(/<!--.*?-->/gs, "").trim() === "";

function readSiteFile(root: string, path: string): SiteFile {
  const extension = extname(path);
  if (IMAGES.has(extension)) return { kind: "asset", path };
  const text = readFileSync(join(root, path), "utf8");
  if (extension !== ".md") return { kind: "source", path, title: path, text };
  const tokens = new Lexer({ gfm: true }).lex(text);
  const headings = readHeadings(tokens);
  const [title] = [...headings.values()].map((heading) => heading.text);
  return { kind: "document", path, title: title ?? path, tokens, headings };
}

function readHeadings(tokens: TokensList): ReadonlyMap<Token, Heading> {
  const headings = new Map<Token, Heading>();
  const uses = new Map<string, number>();
  void walkTokens(tokens, (token) => {
    if (token.type !== "heading") return;
    const { depth, tokens: inline } = token as Tokens.Heading;
    const text = toPlainText(inline);
    const base = buildAnchor(text);
    const used = uses.get(base) ?? 0;
    uses.set(base, used + 1);
    headings.set(token, { depth, text, id: used === 0 ? base : `${base}-${used}` });
  });
  return headings;
}

/** The anchor that GitHub gives to a heading. */
function buildAnchor(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function listLinks(file: SiteFile): readonly (Tokens.Link | Tokens.Image)[] {
  const links: (Tokens.Link | Tokens.Image)[] = [];
  if (file.kind !== "document") return links;
  void walkTokens(file.tokens, (token) => {
    if (token.type === "link" || token.type === "image") links.push(token as Tokens.Link | Tokens.Image);
  });
  return links;
}

function findProblems(root: string, file: SiteFile, files: ReadonlyMap<string, SiteFile>): readonly string[] {
  if (file.kind !== "document") return [];
  const problems = listLinks(file).flatMap(({ type, href }) => {
    const target = resolveLink(root, file.path, href);
    if (target.kind === "missing") return [`${file.path}: the link to ${href} is broken`];
    if (type === "image" && target.kind !== "file")
      return [`${file.path}: the image ${href} is no file of the repository`];
    if (target.kind !== "file" || target.id === "") return [];
    const found = files.get(target.path);
    const ids = found?.kind === "document" ? [...found.headings.values()].map(({ id }) => id) : [];
    return ids.includes(target.id) ? [] : [`${file.path}: the link to ${href} names a heading that is missing`];
  });
  void walkTokens(file.tokens, (token) => {
    // GitHub drops unknown tags silently, so a placeholder outside code would disappear.
    if (token.type === "html" && !isComment(token.raw))
      problems.push(`${file.path}: write ${token.raw.trim()} as code, not as HTML`);
  });
  return problems;
}

/** Blocks end with a space, so that words of different blocks stay apart. */
function getText(token: MarkedToken): string {
  switch (token.type) {
    case "table":
      return [token.header, ...token.rows]
        .flat()
        .map((cell) => `${toPlainText(cell.tokens)} `)
        .join("");
    case "list":
      return token.items.map((item) => `${toPlainText(item.tokens)} `).join("");
    case "heading":
    case "paragraph":
    case "blockquote":
      return `${toPlainText(token.tokens)} `;
    case "code":
      return `${token.text} `;
    case "br":
    case "space":
    case "hr":
    case "def":
    case "checkbox":
    case "html":
      return " ";
    case "text":
    case "link":
    case "strong":
    case "em":
    case "del":
      return token.tokens === undefined
        ? token.text
        : token.tokens.map((part) => getText(part as MarkedToken)).join("");
    default:
      return token.text;
  }
}
