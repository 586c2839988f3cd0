import { type Token, walkTokens } from "marked";
import { type Document, toPlainText, resolveLink, type SiteFile } from "./read-pages.ts";

export const PURPOSES = ["Tutorials", "Guides", "Reference", "Explanation", "Decisions"] as const;
/** The index of the documents: its headings give the purpose of pages that are in no folder of a purpose. */
export const INDEX = "docs/README.md";
/** The purpose of pages outside docs/ that the index does not list. */
const REPOSITORY = "Repository";
const GROUPS = [...PURPOSES, REPOSITORY] as const;

export type Purpose = (typeof GROUPS)[number];
export type NavigationGroup = { readonly purpose: Purpose; readonly pages: readonly Document[] };

/**
 * Groups the documents by purpose. A folder such as docs/tutorials/ decides first, then the heading of the index that links to the page. Pages have the order
 * of the index; pages that it does not list follow, by path.
 */
export function planNavigation(root: string, files: ReadonlyMap<string, SiteFile>): readonly NavigationGroup[] {
  const documents = [...files.values()].filter((file) => file.kind === "document");
  const listed = readIndex(root, documents);
  const order = [...listed.keys()];
  const rank = ({ path }: Document): number => (listed.has(path) ? order.indexOf(path) : order.length);
  const pages = documents
    .filter(({ path }) => path !== INDEX && path !== "README.md")
    .toSorted((a, b) => rank(a) - rank(b) || (a.path < b.path ? -1 : 1));
  return GROUPS.map((purpose) => ({
    purpose,
    pages: pages.filter(({ path }) => decidePurpose(path, listed) === purpose),
  })).filter((group) => group.pages.length > 0);
}

function decidePurpose(path: string, listed: ReadonlyMap<string, Purpose>): Purpose {
  const [, folder = ""] = /^docs\/([a-z]+)\//.exec(path) ?? [];
  const byFolder = PURPOSES.find((purpose) => purpose.toLowerCase() === folder);
  return byFolder ?? listed.get(path) ?? (path.startsWith("docs/") ? "Guides" : REPOSITORY);
}

/** The purpose of each page to which the index links. The first link counts. */
function readIndex(root: string, documents: readonly Document[]): ReadonlyMap<string, Purpose> {
  const listed = new Map<string, Purpose>();
  const index = documents.find(({ path }) => path === INDEX);
  let purpose: Purpose | undefined;
  for (const block of index?.tokens ?? []) {
    if (block.type === "heading") purpose = PURPOSES.find((name) => name === toPlainText([block]));
    if (purpose === undefined) continue;
    for (const path of linkedFiles(root, block)) if (!listed.has(path)) listed.set(path, purpose);
  }
  return listed;
}

function linkedFiles(root: string, block: Token): readonly string[] {
  const paths: string[] = [];
  void walkTokens([block], (token) => {
    if (token.type !== "link") return;
    const target = resolveLink(root, INDEX, String(token.href));
    if (target.kind === "file") paths.push(target.path);
  });
  return paths;
}
