import { escapeHtml, buildRelativeUrl, buildUrl } from "./markdown.ts";
import { INDEX, type NavigationGroup } from "./navigation.ts";
import { type Document, type Heading, toPlainText, type SourceFile } from "./read-pages.ts";

/** Browsers load nothing from other hosts. `file:` lets the site work from a folder without a server. */
const POLICY = [
  "default-src 'none'",
  ...["script-src", "style-src", "img-src"].map((kind) => `${kind} 'self' file:`),
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const MIN_CONTENTS = 3;
const MAX_DESCRIPTION_CHARS = 200;

/** Builds the HTML of a page around its body. */
export function buildPage(page: Document | SourceFile, body: string, navigation: readonly NavigationGroup[]): string {
  const url = buildUrl(page.path);
  const to = (target: string): string => escapeHtml(buildRelativeUrl(url, target));
  const purpose = navigation.find(({ pages }) => pages.some(({ path }) => path === page.path))?.purpose;
  const title = page.path === "README.md" ? page.title : `${page.title} · Muster`;
  return `<!doctype html>
<html lang="en" data-root="${"../".repeat(url.split("/").length - 1)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escapeHtml(describe(page))}">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${to("icon.svg")}">
<link rel="stylesheet" href="${to("style.css")}">
<script src="${to("scheme.js")}"></script>
<script src="${to("site.js")}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<button type="button" class="menu" popovertarget="navigation">Menu</button>
<a class="home" href="${to("index.html")}">Muster</a>
<button type="button" class="search" id="open-search" hidden>Search <kbd>/</kbd></button>
<button type="button" id="scheme" aria-label="Change between light and dark" hidden>◐</button>
</header>
<div class="columns">
<nav id="navigation" aria-label="Pages" popover>
${buildNavigation(page, navigation)}
</nav>
<main id="content">
${purpose === undefined ? "" : `<p class="purpose">${purpose}</p>`}
${body}<footer>Source: <code>${escapeHtml(page.path)}</code></footer>
</main>
${page.kind === "document" ? buildContents([...page.headings.values()]) : ""}
</div>
<dialog id="search" aria-label="Search">
<input type="search" placeholder="Search the documents" aria-label="Search the documents" autocomplete="off" spellcheck="false" autofocus>
<p id="search-state" role="status"></p>
<ol id="search-results"></ol>
</dialog>
</body>
</html>
`;
}

function buildNavigation(page: Document | SourceFile, navigation: readonly NavigationGroup[]): string {
  const link = (path: string, title: string): string => {
    const current = path === page.path ? ' aria-current="page"' : "";
    return `<a href="${escapeHtml(buildRelativeUrl(buildUrl(page.path), buildUrl(path)))}"${current}>${escapeHtml(title)}</a>`;
  };
  const isStart = !navigation.some(({ pages }) => pages.some(({ path }) => path === page.path));
  const groups = navigation.map(({ purpose, pages }, index) => {
    const isOpen = pages.some(({ path }) => path === page.path) || (isStart && index < 2);
    const items = pages.map(({ path, title }) => `<li>${link(path, titleInGroup(title))}</li>`);
    return `<details${isOpen ? " open" : ""}><summary>${purpose}</summary><ul>\n${items.join("\n")}\n</ul></details>`;
  });
  return [`<ul><li>${link("README.md", "Overview")}</li><li>${link(INDEX, "All documents")}</li></ul>`, ...groups].join(
    "\n",
  );
}

/** `Tutorial: run a job` becomes `Run a job`, because the group states the purpose. */
function titleInGroup(title: string): string {
  return title.replace(/^Tutorial: (.)/, (_, first: string) => first.toUpperCase());
}

function buildContents(headings: readonly Heading[]): string {
  const listed = headings.filter(({ depth }) => depth === 2 || depth === 3);
  if (listed.length < MIN_CONTENTS) return "";
  const items = listed.map(
    ({ depth, id, text }) => `<li class="depth-${depth}"><a href="#${id}">${escapeHtml(text)}</a></li>`,
  );
  return `<aside aria-label="On this page"><p>On this page</p><ul>\n${items.join("\n")}\n</ul></aside>`;
}

function describe(page: Document | SourceFile): string {
  if (page.kind === "source") return page.path;
  const paragraph = page.tokens.find(({ type }) => type === "paragraph");
  const text = paragraph === undefined ? page.title : toPlainText([paragraph]);
  return text.length <= MAX_DESCRIPTION_CHARS ? text : `${text.slice(0, MAX_DESCRIPTION_CHARS - 1)}…`;
}
