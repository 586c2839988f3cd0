import { posix } from "node:path";
import hljs from "highlight.js/lib/common";
import { Marked, type RendererObject, type Token } from "marked";
import { type Document, toPlainText, resolveLink, type SourceFile } from "./read-pages.ts";
import type { Section } from "./search.ts";

const MIN_BROKEN_CHARS = 20;

/** The URL of the page of a file, relative to the root of the site. */
export function buildUrl(path: string): string {
  if (!path.endsWith(".md")) return `${path}.html`;
  return path.replace(/(?:README)?\.md$/, (end) => (end === "README.md" ? "index.html" : ".html"));
}

/** The relative URL from one page to another. */
export const buildRelativeUrl = (from: string, to: string): string => posix.relative(posix.dirname(from), to);

export function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character);
}

/** Renders the body of a document. `root` is the repository. */
export function renderDocument(root: string, page: Document): string {
  return new Marked({ gfm: true, renderer: makeRenderer(root, page) }).parser(page.tokens);
}

export function renderSource({ path, text }: SourceFile): string {
  const language = path.slice(path.lastIndexOf(".") + 1);
  return `<h1>${escapeHtml(path)}</h1>\n${renderCode(text, language)}`;
}

/** The sections of a document, one for each heading, for the search. */
export function splitSections(page: Document): readonly Section[] {
  const url = buildUrl(page.path);
  const sections: { heading: string; url: string; tokens: Token[] }[] = [];
  for (const token of page.tokens) {
    const heading = page.headings.get(token);
    if (sections.length === 0) sections.push({ heading: "", url, tokens: [] });
    else if (heading !== undefined) sections.push({ heading: heading.text, url: `${url}#${heading.id}`, tokens: [] });
    if (heading === undefined) sections.at(-1)?.tokens.push(token);
  }
  return sections.map(({ tokens, ...section }) => ({ title: page.title, ...section, text: toPlainText(tokens) }));
}

function makeRenderer(root: string, page: Document): RendererObject {
  const own = buildUrl(page.path);
  return {
    heading(token) {
      const { id = "" } = page.headings.get(token) ?? {};
      const text = this.parser.parseInline(token.tokens);
      const anchor = `<a class="anchor" href="#${id}" aria-label="Link to this section">#</a>`;
      return `<h${token.depth} id="${id}">${text}${token.depth === 1 ? "" : anchor}</h${token.depth}>\n`;
    },
    // The text has no other HTML.
    html: () => "",
    code: ({ text, lang = "" }) => renderCode(text, lang),
    table(token) {
      const row = (cells: typeof token.header): string =>
        this.tablerow({ text: cells.map((cell) => this.tablecell(cell)).join("") });
      const rows = token.rows.map(row).join("");
      const table = `<table><thead>${row(token.header)}</thead><tbody>${rows}</tbody></table>`;
      // A wide table scrolls by itself, also with the keyboard.
      return `<div class="table" tabindex="0">${allowBreaks(table)}</div>\n`;
    },
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      const target = resolveLink(root, page.path, href);
      if (target.kind === "outside") return `<a href="${escapeHtml(target.url)}" rel="external noreferrer">${text}</a>`;
      if (target.kind !== "file") return `<span class="folder" title="${escapeHtml(target.path)}">${text}</span>`;
      const file = target.path === page.path && target.id !== "" ? "" : buildRelativeUrl(own, buildUrl(target.path));
      return `<a href="${escapeHtml(target.id === "" ? file : `${file}#${target.id}`)}">${text}</a>`;
    },
    image({ href, text }) {
      const target = resolveLink(root, page.path, href);
      return target.kind === "file"
        ? `<img src="${escapeHtml(buildRelativeUrl(own, target.path))}" alt="${escapeHtml(text)}">`
        : escapeHtml(text);
    },
  };
}

/** Lets long names, as of metrics, variables and files, continue on the next line of a cell. */
function allowBreaks(html: string): string {
  const long = new RegExp(`<code>[^<]{${MIN_BROKEN_CHARS},}</code>`, "g");
  return html.replaceAll(long, (code) => code.replaceAll(/(?<=\w)[._/:=,-](?=\w)/g, "$&<wbr>"));
}

function renderCode(text: string, language: string): string {
  const isKnown = hljs.getLanguage(language) !== undefined;
  const html = isKnown ? hljs.highlight(text, { language }).value : escapeHtml(text);
  return `<pre tabindex="0"${isKnown ? ` data-language="${language}"` : ""}><code>${html}</code></pre>\n`;
}
